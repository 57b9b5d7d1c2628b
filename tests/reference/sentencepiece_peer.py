"""The sentencepiece package as a peer of ours. usage: sentencepiece_peer.py DIRECTORY SEED TEXTS

Trains models of many kinds, writes each as NAME.model, and what the package makes of random texts and ids as NAME.json.
Texts are hexadecimal, because some are not valid UTF-8; offsets are bytes.
"""

import io
import json
import random
import sys
from pathlib import Path

import sentencepiece as spm

KINDS = {
    "unigram": {},
    "bpe": dict(model_type="bpe"),
    "unigram_bytes": dict(byte_fallback=True, vocab_size=600),
    "bpe_bytes": dict(model_type="bpe", byte_fallback=True, vocab_size=600),
    "llama_like": dict(
        model_type="bpe", byte_fallback=True, vocab_size=700, normalization_rule_name="identity",
        remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True, pad_id=3,
    ),
    "user_defined": dict(user_defined_symbols=["<sep>", "ab", "abc", "  ", "日本", "<mask>"], control_symbols=["<ctl>"]),
    "bpe_user_defined": dict(
        model_type="bpe", byte_fallback=True, vocab_size=600, user_defined_symbols=["<sep>", "the", "🙂", "<0x41>x"]
    ),
    "nfkc_cf": dict(normalization_rule_name="nfkc_cf"),
    "nmt_nfkc_cf_bpe": dict(normalization_rule_name="nmt_nfkc_cf", model_type="bpe"),
    "nfkc_no_prefix": dict(normalization_rule_name="nfkc", add_dummy_prefix=False),
    "suffix": dict(treat_whitespace_as_suffix=True, model_type="bpe"),
    "char": dict(model_type="char", vocab_size=120, hard_vocab_limit=False),
    "word": dict(model_type="word", vocab_size=200, hard_vocab_limit=False),
    "self_tested": dict(self_test_sample_size=20),
    "no_bos": dict(bos_id=-1, eos_id=0, unk_id=1, unk_surface="?"),
}  # fmt: skip
WORDS = "the of and to in model token Ünïcode straße naïve 東京 日本語 привет мир 123 4567 3.14 hello-world ab abc x_y".split()
ODD = ["\u00a0", "\u3000", "\t", "\n", "\r\n", "  ", "\u200b", "\u200d", "ﬁ", "①", "Å", "Å", "㎞", "ﷺ", "½", "é", "ｶﾞ", "ガ",
       "한", "\ufffd", "\ufeff", "▁", "▁▁", "<s>", "</s>", "<unk>", "<sep>", "<mask>", "<ctl>", "<0x41>", "<0x41>x", "🙂",
       "👩‍👩‍👧", "İ", "ẞ", "\x00", "\x01", "\x7f", "\u0085", "\u2028", "ﬀ", "ǅ"]  # fmt: skip


def random_text(rng: random.Random) -> str:
    parts = []
    for _ in range(rng.randrange(12)):
        kind = rng.random()
        if kind < 0.5:
            parts.append(rng.choice(WORDS))
        elif kind < 0.75:
            parts.append(rng.choice(ODD))
        elif kind < 0.9:
            parts.append("".join(chr(rng.randrange(32, 0x3000)) for _ in range(rng.randrange(1, 5))))
        else:
            code = rng.randrange(0x110000)
            parts.append(chr(code) if not 0xD800 <= code < 0xE000 else "\ud7ff")
        if rng.random() < 0.5:
            parts.append(" " * rng.randrange(1, 4))
    return "".join(parts)


def train(kind: dict, rng: random.Random) -> bytes:
    syllables = "ba ke li mo nu ra se ti vo zu ".split()
    words = WORDS + ["".join(rng.choice(syllables) for _ in range(rng.randrange(1, 5))) for _ in range(200)]
    corpus = [" ".join(rng.choice(words) for _ in range(rng.randrange(3, 15))) for _ in range(400)]
    corpus += [rng.choice(WORDS) + rng.choice(ODD).replace("\x00", "").strip() for _ in range(300)]
    out = io.BytesIO()
    options = dict(vocab_size=320, character_coverage=0.99, minloglevel=3, hard_vocab_limit=False) | kind
    spm.SentencePieceTrainer.train(sentence_iterator=iter(corpus), model_writer=out, **options)
    return out.getvalue()


def decoded(processor: spm.SentencePieceProcessor, ids: list[int]) -> str:
    return processor.decode(ids, return_type=bytes).hex() if ids else ""


def main(directory: Path, seed: int, texts: int) -> None:
    rng = random.Random(seed)
    for name, kind in KINDS.items():
        model = train(kind, rng)
        (directory / f"{name}.model").write_bytes(model)
        processor = spm.SentencePieceProcessor(model_proto=model)
        size = processor.get_piece_size()
        cases = []
        for i in range(texts):
            text = bytearray(random_text(rng).encode() if i else b"")
            if i in (1, 2):  # long ones, and with much that no piece is for
                text = bytearray("".join(random_text(rng) + "ঌ①" * rng.choice([0, 0, 1, 300]) for _ in range(80)).encode())
            if text and rng.random() < 0.1:  # no longer UTF-8
                text[rng.randrange(len(text))] = rng.randrange(256)
            result = processor.encode(bytes(text), return_type="offset_mapping")
            ids = [rng.randrange(size) for _ in range(rng.randrange(12))]
            cases.append(dict(
                text=text.hex(), ids=result["ids"], offsets=result["offsets"],
                decoded=decoded(processor, result["ids"]),
                other_ids=ids, other_decoded=decoded(processor, ids),
            ))  # fmt: skip
        facts = dict(
            vocab=[processor.id_to_piece(i) for i in range(size)],
            control=[i for i in range(size) if processor.is_control(i)],
            bytes=[i for i in range(size) if processor.is_byte(i)],
            bos=processor.bos_id(), eos=processor.eos_id(), unk=processor.unk_id(), pad=processor.pad_id(), cases=cases,
        )  # fmt: skip
        (directory / f"{name}.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
