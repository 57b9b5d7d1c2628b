"""Writes tokenizers and what the tokenizers package makes of random texts.
usage: tokenizers_peer.py kind DIRECTORY KIND COUNT SEED       one of the published kinds
       tokenizers_peer.py code_points DIRECTORY                every code point through some normalizers
       tokenizers_peer.py components DIRECTORY PART COUNT SEED every component of that part: normalizer, pre_tokenizer,
                                                               decoder, post_processor, model or rest

A component's type (NFC, Split, …) gets COUNT texts in all, assigned to the tokenizers that try its settings: at least 60
to each.

A tokenizer is NAME.json, its texts are NAME.jsonl: a line is an object with text (and pair), ids, offsets in characters
as one flat list, error where the package refuses, decoded (without special tokens), decoded_all, and at times stream, the steps of a DecodeStream."""

import json
import os
import pathlib
import sys

os.environ["RUST_BACKTRACE"] = "0"
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from tokenizers_draw import Texts


def outcome(tokenizer: Tokenizer, text: str, pair: str | None, number: int, full: bool) -> dict:
    row = dict(text=text)
    if pair is not None:
        row["pair"] = pair
    try:
        encoding = tokenizer.encode(text, pair)
    except BaseException as error:  # a panic is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return row | dict(error=str(error))
    row |= dict(ids=encoding.ids, offsets=[edge for offset in encoding.offsets for edge in offset],
               decoded=tokenizer.decode(encoding.ids), decoded_all=tokenizer.decode(encoding.ids, skip_special_tokens=False))
    if full:
        row |= flat(encoding)
    if number % 10 == 0:
        stream = DecodeStream(skip_special_tokens=False)
        try:
            row["stream"] = [stream.step(tokenizer, ident) or "" for ident in encoding.ids]
        except Exception:  # a decoder that takes back what it gave
            pass
    return row


def flat(encoding) -> dict:
    return dict(ids=encoding.ids, offsets=[edge for offset in encoding.offsets for edge in offset], type_ids=encoding.type_ids,
                words=[-1 if word is None else word for word in encoding.word_ids], special=encoding.special_tokens_mask,
                attention=encoding.attention_mask, sequences=[-1 if sequence is None else sequence for sequence in encoding.sequence_ids],
                overflowing=[flat(part) for part in encoding.overflowing])


def write(directory: pathlib.Path, name: str, document: str, texts: Texts, count: int, pairs: bool = False, full: bool = False,
          ascii: bool = False) -> None:
    tokenizer = Tokenizer.from_str(document)
    (directory / f"{name}.json").write_text(document, encoding="utf-8")
    with (directory / f"{name}.jsonl").open("w", encoding="utf-8") as out:
        for number in range(count):
            text = texts.draw()
            pair = texts.draw() if pairs and number % 2 else None
            if ascii:  # where a token no longer says which text it is of, so that characters cannot be told from bytes
                text, pair = (value and value.encode("ascii", "ignore").decode() for value in (text, pair))
            row = outcome(tokenizer, text, pair, number, full)
            if "bad split" not in row.get("error", ""):  # a panic where one token eats the blanks of another; we go on
                out.write(json.dumps(row, ensure_ascii=False) + "\n")


def added_of(document: str) -> list[str]:
    return [token["content"] for token in json.loads(document)["added_tokens"]]


def type_of(part: str, name: str, document: str) -> str:
    return json.loads(document)[part]["type"] if part != "rest" else name.split("_")[0]


def code_points(directory: pathlib.Path) -> None:
    """What normalizers make of "a", a code point and "b"; those that stay as they are left out."""
    from tokenizers import normalizers

    bert = lambda **on: normalizers.BertNormalizer(**dict(clean_text=False, handle_chinese_chars=False, strip_accents=False,
                                                          lowercase=False) | on)
    cases = []
    for normalizer in (bert(clean_text=True), bert(strip_accents=True), normalizers.BertNormalizer(), normalizers.StripAccents()):
        changed = []
        for code in range(0x110000):
            if not 0xD800 <= code <= 0xDFFF:
                given = f"a{chr(code)}b"
                if (became := normalizer.normalize_str(given)) != given:
                    changed.append([code, became])
        cases.append({"normalizer": json.loads(normalizer.__getstate__()), "changed": changed})
    (directory / "cases.json").write_text(json.dumps(cases))


def main() -> None:
    command, directory, *rest = sys.argv[1:]
    directory = pathlib.Path(directory)
    if command == "code_points":
        code_points(directory)
    elif command == "kind":
        from tokenizers_kinds import make

        kind, count, seed = rest
        document = make(kind)
        write(directory, kind, document, Texts(int(seed), added_of(document)), int(count))
    else:
        from tokenizers_components import components

        wanted, count, seed = rest[0], *map(int, rest[1:])
        parts = ("normalizer", "pre_tokenizer", "decoder", "post_processor", "model")
        part_of = lambda name: next((part for part in parts if name.startswith(part + "_")), "rest")
        chosen = [(type_of(wanted, name, document), name, document, options)
                  for name, document, options in components() if part_of(name) == wanted]
        texts = Texts(seed, [])
        for kind, name, document, options in chosen:
            texts.added = added_of(document)
            settings = sum(other == kind for other, *_ in chosen)
            write(directory, name, document, texts, max(-(-count // settings), 60), **options)


if __name__ == "__main__":
    main()
