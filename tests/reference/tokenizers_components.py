"""A tokenizer for every type and setting of every part of tokenizer.json."""

import json
from collections.abc import Iterator

from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import BPE, Unigram, WordLevel, WordPiece

from tokenizers_draw import training_text
from tokenizers_kinds import BYTES, LLAMA3, MARK, SENTENCEPIECE_DECODER, added, bert, byte_level, charsmap, finish, gpt2, llama3, sentencepiece_bpe, t5

BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
            r"""|\s*[\r\n]+|\s+(?!\S)|\s+""")
CL100K = (r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""")
PATTERNS = dict(
    o200k=O200K, deepseek=DEEPSEEK, cl100k=CL100K, spaces=r"\s+", words=r"\w+", not_words=r"\W+", numbers=r"\d+|\p{N}",
    lines=r"^.", ends=r".$", edges=r"\b", hex=r"\h+", any_case=r"(?i)KA|é", posix=r"[[:punct:]]+|[[:upper:]]",
    han=r"[\p{Han}\p{Hiragana}]+|[一-龥]", long_names=r"\p{Uppercase_Letter}\p{Letter}*", negated=r"\p{^L}+", behind=r"(?<=a)n|(?<!o)n",
    escapes=r"\u00e9|\x{4f60}|\t|\v", nested=r"[a[bc]d]+", atomic=r"(?>ka|k)a", dot_all=r"(?m:a.)", empty=r"x*", literal_brace=r"\{|\}",
    repeated=r"o{1,2}+", up_to=r"e{,2}s", not_space=r"[^\s\d]+")


def part(value) -> dict:
    return json.loads(value.__getstate__().decode())


def base(text: list[str]) -> dict:
    """Bytes and some merges: what a text is cut into shows in the words, and what it has become in the ids."""
    document = json.loads(finish(sentencepiece_bpe(700, text, ["<unk>", "<s>", "</s>"]),
                                 [added("<s>"), added("</s>"), added("<mask>", lstrip=True)]))
    document["normalizer"] = None
    return document


def of_normalizers() -> dict:
    n = normalizers
    out = dict(nfc=n.NFC(), nfd=n.NFD(), nfkc=n.NFKC(), nfkd=n.NFKD(), lowercase=n.Lowercase(), strip=n.Strip(),
               lstrip=n.Strip(right=False), rstrip=n.Strip(left=False), strip_accents=n.StripAccents(), nmt=n.Nmt(),
               replace=n.Replace("ka", "Kä"), replace_with_nothing=n.Replace("e", ""), prepend=n.Prepend("_ä"), byte_level=n.ByteLevel(),
               no_accents=n.Sequence([n.NFD(), n.StripAccents(), n.Lowercase()]), many=n.Sequence([n.NFKC(), n.Strip(), n.Replace(" ", MARK), n.Prepend(MARK)]),
               start=n.Sequence([n.Replace(Regex("^"), "▁"), n.Prepend("_")]), xlnet=n.Sequence([n.Replace("``", '"'), n.NFKD(), n.StripAccents(), n.Replace(Regex(" {2,}"), " ")]),
               lower_then_bytes=n.Sequence([n.Lowercase(), n.ByteLevel()]))
    for clean in (False, True):
        for accents in (None, False, True):
            out[f"bert_{clean}_{accents}"] = n.BertNormalizer(clean_text=clean, handle_chinese_chars=not clean, strip_accents=accents, lowercase=clean)
    for name in ("spaces", "words", "han", "any_case", "empty", "lines", "ends"):
        out[f"regex_{name}"] = n.Replace(Regex(PATTERNS[name]), "<é>")
    return {name: part(value) for name, value in out.items()} | dict(precompiled=dict(type="Precompiled", precompiled_charsmap=charsmap()))


def of_pre_tokenizers() -> dict:
    p = pre_tokenizers
    out = dict(bert=p.BertPreTokenizer(), whitespace=p.Whitespace(), whitespace_split=p.WhitespaceSplit(), digits=p.Digits(), each_digit=p.Digits(True),
               delimiter=p.CharDelimiterSplit("e"), scripts=p.UnicodeScripts(), fixed_length=p.FixedLength(3),
               sequence=p.Sequence([p.Whitespace(), p.Punctuation(), p.Digits(True)]), marked=p.Sequence([p.WhitespaceSplit(), p.Metaspace(prepend_scheme="first")]),
               bytes_and_digits=p.Sequence([p.Digits(True), p.ByteLevel(add_prefix_space=True)]))
    for behavior in BEHAVIORS:
        out[f"punctuation_{behavior}"] = p.Punctuation(behavior)
        for invert in (False, True):
            out[f"split_{behavior}_{invert}"] = p.Split(" ", behavior, invert)
            out[f"regex_{behavior}_{invert}"] = p.Split(Regex(r"\s+|e"), behavior, invert)
            out[f"llama3_{behavior}_{invert}"] = p.Split(Regex(LLAMA3), behavior, invert)
    for name, pattern in PATTERNS.items():
        out[f"pattern_{name}"] = p.Split(Regex(pattern), "isolated")
    for space in (False, True):
        for regex in (False, True):
            out[f"byte_level_{space}_{regex}"] = p.ByteLevel(add_prefix_space=space, use_regex=regex)
    for scheme in ("always", "first", "never"):
        for split in (False, True):
            out[f"metaspace_{scheme}_{split}"] = p.Metaspace("_" if split else MARK, scheme, split)
    return {name: part(value) for name, value in out.items()}


def of_decoders() -> dict:
    d = decoders
    out = dict(word_piece=d.WordPiece(), word_piece_dirty=d.WordPiece("e", False), always=d.Metaspace(), never=d.Metaspace(prepend_scheme="never"),
               bpe=d.BPEDecoder("e"), byte_level=d.ByteLevel(), byte_fallback=d.ByteFallback(), fuse=d.Fuse(),
               ctc=d.CTC("<s>", "e"), ctc_dirty=d.CTC("l", "e", False), replace=d.Replace("e", "é"), replace_regex=d.Replace(Regex("[aeiou]+"), "-"),
               sequence=d.Sequence([*SENTENCEPIECE_DECODER, d.Strip(" ", 2, 0)]), fallback_first=d.Sequence([d.ByteFallback(), d.Metaspace()]))
    return {name: part(value) for name, value in out.items()}


def of_post_processors() -> dict:
    p = processors
    template = p.TemplateProcessing(single="<s>:2 $A:3 </s>", pair="<s> $B:1 </s>:1 $A:0 <two>:4", special_tokens=[("<s>", 1), ("</s>", 2), dict(id="<two>", ids=[1, 2], tokens=["<s>", "</s>"])])
    out = dict(template=template, bert=p.BertProcessing(("</s>", 2), ("<s>", 1)), sequence=p.Sequence([p.ByteLevel(trim_offsets=True), template]),
               after=p.Sequence([template, p.ByteLevel(add_prefix_space=False, trim_offsets=True)]))
    for trim in (False, True):
        for space in (False, True):
            out[f"roberta_{trim}_{space}"] = p.RobertaProcessing(("</s>", 2), ("<s>", 1), trim_offsets=trim, add_prefix_space=space)
            out[f"byte_level_{trim}_{space}"] = p.ByteLevel(add_prefix_space=space, trim_offsets=trim)
    return {name: part(value) for name, value in out.items()}


def of_models(text: list[str]) -> Iterator[tuple[str, str]]:
    def trained(model, trainer, pre_tokenizer=None) -> Tokenizer:
        tokenizer = Tokenizer(model)
        tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.Whitespace()
        tokenizer.train_from_iterator(text, trainer)
        return tokenizer

    quiet = dict(show_progress=False, special_tokens=["<unk>"])
    for fuse in (False, True):
        yield f"bpe_unknown_{fuse}", finish(trained(BPE(unk_token="<unk>", fuse_unk=fuse), trainers.BpeTrainer(vocab_size=500, limit_alphabet=25, **quiet)), [added("<unk>")])
    yield "bpe_drops", finish(trained(BPE(), trainers.BpeTrainer(vocab_size=500, limit_alphabet=25, **quiet)), [])
    few = json.loads(finish(trained(BPE(unk_token="<unk>", byte_fallback=True), trainers.BpeTrainer(vocab_size=700, limit_alphabet=20, show_progress=False, special_tokens=["<unk>", *BYTES])), []))
    few["model"]["vocab"].pop("<0xC3>")
    yield "bpe_some_bytes", json.dumps(few)
    affixed = trainers.BpeTrainer(vocab_size=600, continuing_subword_prefix="##", end_of_word_suffix="</w>", **quiet)
    yield "bpe_affixes", finish(trained(BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>"), affixed), [added("<unk>")], decoder=part(decoders.BPEDecoder()))
    suffixed = trainers.BpeTrainer(vocab_size=600, end_of_word_suffix="</w>", **quiet)
    yield "bpe_suffix", finish(trained(BPE(unk_token="<unk>", end_of_word_suffix="</w>"), suffixed), [added("<unk>")], decoder=part(decoders.BPEDecoder()))
    whole = json.loads(finish(trained(BPE(unk_token="<unk>", ignore_merges=True), trainers.BpeTrainer(vocab_size=600, **quiet)), [added("<unk>")]))
    kept = whole["model"]["merges"]
    whole["model"]["merges"] = kept[: len(kept) // 2]
    yield "bpe_ignore_merges", json.dumps(whole)
    yield "bpe_no_split", finish(trained(BPE(unk_token="<unk>"), trainers.BpeTrainer(vocab_size=600, **quiet), pre_tokenizers.Split("\n", "isolated")), [added("<unk>")], pre_tokenizer=None)
    yield "word_piece", finish(trained(WordPiece(unk_token="<unk>", max_input_chars_per_word=12), trainers.WordPieceTrainer(vocab_size=500, **quiet)), [added("<unk>")])
    yield "word_piece_other", finish(trained(WordPiece(unk_token="<unk>", continuing_subword_prefix="@é"), trainers.WordPieceTrainer(vocab_size=500, continuing_subword_prefix="@é", **quiet)), [added("<unk>")])
    yield "word_level", finish(trained(WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(vocab_size=300, **quiet)), [added("<unk>")])
    for fallback in (False, True):
        special = ["<unk>", *BYTES] if fallback else ["<unk>"]
        unigram = trained(Unigram(), trainers.UnigramTrainer(vocab_size=600, show_progress=False, special_tokens=special, unk_token="<unk>"), pre_tokenizers.Metaspace())
        yield f"unigram_{fallback}", finish(unigram, [added("<unk>")], model=dict(byte_fallback=fallback))
        yield f"unigram_whole_{fallback}", finish(unigram, [added("<unk>")], model=dict(byte_fallback=fallback), pre_tokenizer=None)


def of_added_tokens() -> list[dict]:
    """Every combination of the flags, some inside of one another, some with blanks."""
    contents = ["<x>", "<X>", "<x>y", "<a b>", " ka", "ka", "Lo", "é", "[MASK]", "you", "▁lo", "\n", "ten!", "<xx>", "<xxx>", "ss", "1"]
    tokens = []
    for i, content in enumerate(contents):
        tokens.append(added(content, single_word=i % 3 == 1, lstrip=i % 4 > 1, rstrip=i % 5 > 2, normalized=i % 2 == 0, special=i % 7 < 4))
    return tokens


def of_lengths() -> Iterator[tuple[str, dict]]:
    for strategy in ("LongestFirst", "OnlyFirst", "OnlySecond"):
        for direction in ("Left", "Right"):
            for length, stride in ((8, 0), (11, 3), (4, 0)):
                yield f"truncation_{strategy}_{direction}_{length}", dict(truncation=dict(direction=direction, max_length=length, strategy=strategy, stride=stride))
    for direction in ("Left", "Right"):
        for strategy in ("BatchLongest", dict(Fixed=13)):
            for multiple in (None, 8):
                name = strategy if isinstance(strategy, str) else "Fixed"
                yield f"padding_{direction}_{name}_{multiple}", dict(padding=dict(strategy=strategy, direction=direction, pad_to_multiple_of=multiple, pad_id=3, pad_type_id=1, pad_token="[PAD]"))
    yield "both", dict(truncation=dict(direction="Right", max_length=9, strategy="LongestFirst", stride=2),
                       padding=dict(strategy=dict(Fixed=12), direction="Left", pad_to_multiple_of=None, pad_id=0, pad_type_id=0, pad_token="[PAD]"))


def components() -> Iterator[tuple[str, str, dict]]:
    """Name, tokenizer.json, and how to try it."""
    text = training_text(11)
    plain = base(text)

    def changed(document: dict, **parts) -> str:
        return json.dumps(document | parts, ensure_ascii=False)

    for name, value in of_normalizers().items():
        yield f"normalizer_{name}", changed(plain, normalizer=value), dict(full=True)
    for name, value in of_pre_tokenizers().items():
        yield f"pre_tokenizer_{name}", changed(plain, pre_tokenizer=value), dict(full=True)
    for name, value in of_decoders().items():
        yield f"decoder_{name}", changed(plain, decoder=value), {}
    space = part(pre_tokenizers.ByteLevel(add_prefix_space=True))
    roberta = json.loads(byte_level(800, pre_tokenizers.ByteLevel(), ["<unk>", "<s>", "</s>"], text).to_str())
    roberta["added_tokens"] = [added("<s>", 1), added("<mask>", 800, lstrip=True)]
    for name, value in of_post_processors().items():
        yield f"post_processor_{name}", changed(roberta, post_processor=value, pre_tokenizer=space), dict(full=True, pairs=True)
    for name, document in of_models(text):
        yield f"model_{name}", document, dict(full=True)
    byte = json.loads(gpt2(800, text))
    for name, document in dict(plain=plain, lower=plain | dict(normalizer=part(normalizers.Sequence([normalizers.Lowercase(), normalizers.Strip()]))),
                               marked=plain | dict(pre_tokenizer=part(pre_tokenizers.Metaspace(prepend_scheme="first", split=False))),
                               prefixed=json.loads(finish(sentencepiece_bpe(700, text, ["<unk>", "<s>", "</s>"]), [])), bytes=byte).items():
        tokenizer = Tokenizer.from_str(json.dumps(document | dict(added_tokens=[])))
        parts = {key: document[key] for key in ("normalizer", "pre_tokenizer", "decoder")}
        yield f"added_{name}", finish(tokenizer, of_added_tokens(), **parts), dict(full=True)
    with_template = plain | dict(post_processor=of_post_processors()["template"])
    with_bert = plain | dict(post_processor=of_post_processors()["bert"])
    with_roberta = roberta | dict(post_processor=of_post_processors()["roberta_True_True"], pre_tokenizer=space)
    for name, parts in of_lengths():
        for kind, document in dict(template=with_template, bert=with_bert, roberta=with_roberta, none=plain).items():
            yield f"{name}_{kind}", changed(document, **parts), dict(full=True, pairs=True, ascii=True)
    yield "pair_bert", bert(600, text), dict(full=True, pairs=True)
    yield "pair_llama3", llama3(600, text), dict(full=True, pairs=True)
    yield "pair_t5", t5(600, text), dict(full=True, pairs=True)
