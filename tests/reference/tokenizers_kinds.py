"""The published tokenizers, rebuilt with small vocabularies: the same parts with the same settings."""

import json

from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import BPE, Unigram, WordPiece

from tokenizers_draw import training_text

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
MARK = "\u2581"


def added(content: str, ident: int = 0, **flags: bool) -> dict:
    return dict(id=ident, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False,
                special=True) | flags


def finish(tokenizer: Tokenizer, tokens: list[dict], **parts) -> str:
    """tokenizer.json with these added tokens and with parts that a trained tokenizer does not have."""
    document = json.loads(tokenizer.to_str())
    vocab = document["model"]["vocab"]
    ids = vocab if isinstance(vocab, dict) else {token: i for i, (token, _) in enumerate(vocab)}
    size = len(ids)
    for token in tokens:
        if token["content"] in ids:
            token["id"] = ids[token["content"]]
        else:
            token["id"], size = size, size + 1
    document["added_tokens"] = tokens
    model = parts.pop("model", {})
    document["model"].update(model)
    document.update(parts)
    return json.dumps(document, ensure_ascii=False)


def byte_level(vocab_size: int, pre_tokenizer, special: list[str], text: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False, special_tokens=special,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(text, trainer)
    return tokenizer


def gpt2(size: int, text: list[str]) -> str:
    tokenizer = byte_level(size, pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"], text)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return finish(tokenizer, [added("<|endoftext|>", normalized=True)])


def llama3(size: int, text: list[str]) -> str:
    split = pre_tokenizers.Split(Regex(LLAMA3), "isolated")
    parts = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = byte_level(size, parts, [], text)
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    document = json.loads(finish(tokenizer, [added(name) for name in names], model=dict(ignore_merges=True)))
    ident = document["added_tokens"][0]["id"]
    template = processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                                             special_tokens=[("<|begin_of_text|>", ident)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    document["post_processor"] = json.loads(tokenizer.to_str())["post_processor"]
    return json.dumps(document, ensure_ascii=False)


def qwen2(size: int, text: list[str]) -> str:
    split = pre_tokenizers.Split(Regex(QWEN2), "isolated")
    parts = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = byte_level(size, parts, [], text)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    return finish(tokenizer, [added(name) for name in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])


def sentencepiece_bpe(size: int, text: list[str], special: list[str]) -> Tokenizer:
    """A vocabulary as sentencepiece's BPE makes it: words with their mark in front, runs of marks, and all bytes."""
    tokenizer = Tokenizer(BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(f"{MARK}+|[^{MARK}]+"), "merged_with_previous")
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=special + BYTES, limit_alphabet=150)
    marked = [line + "".join(" " * n for n in range(1, 6) if len(line) % 5 == n) + "x" for line in text]
    tokenizer.train_from_iterator(marked, trainer)
    tokenizer.pre_tokenizer = None
    return tokenizer


SENTENCEPIECE_DECODER = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]


def llama2(size: int, text: list[str]) -> str:
    tokenizer = sentencepiece_bpe(size, text, ["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    tokenizer.decoder = decoders.Sequence([*SENTENCEPIECE_DECODER, decoders.Strip(" ", 1, 0)])
    return finish(tokenizer, [added(name) for name in ("<unk>", "<s>", "</s>")])


def mistral(size: int, text: list[str]) -> str:
    names = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]"]
    tokenizer = sentencepiece_bpe(size, text, names)
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    tokenizer.decoder = decoders.Sequence([*SENTENCEPIECE_DECODER, decoders.Strip(" ", 1, 0)])
    return finish(tokenizer, [added(name) for name in names])


def gemma(size: int, text: list[str]) -> str:
    names = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>"]
    plain = ["\n", "\n\n", "\n\n\n", "\t", MARK * 2, MARK * 3, MARK * 4, "<table>", "</b>"]
    tokenizer = sentencepiece_bpe(size, text, names + plain)
    tokenizer.normalizer = normalizers.Replace(" ", MARK)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", pair="<bos> $A <bos>:1 $B:1", special_tokens=[("<bos>", 2)])
    tokenizer.decoder = decoders.Sequence(SENTENCEPIECE_DECODER)
    return finish(tokenizer, [added(name) for name in names] + [added(name, special=False) for name in plain])


def bert(size: int, text: list[str]) -> str:
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(text, trainers.WordPieceTrainer(vocab_size=size, show_progress=False, special_tokens=names))
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                             special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return finish(tokenizer, [added(name) for name in names])


def charsmap() -> str:
    """sentencepiece's nmt_nfkc map in base64, out of a model that it trains; the map is field 3, part 2."""
    import base64
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(training_text(3)), model_writer=model, vocab_size=400,
                                             normalization_rule_name="nmt_nfkc", minloglevel=2, hard_vocab_limit=False)

    def fields(data: bytes):
        at = 0

        def number() -> int:
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value

        while at < len(data):
            tag = number()
            if tag & 7 == 2:
                size = number()
                yield tag >> 3, data[at:at + size]
                at += size
            elif tag & 7 == 0:
                yield tag >> 3, number()
            else:
                at += 4 if tag & 7 == 5 else 8

    spec = next(value for field, value in fields(model.getvalue()) if field == 3)
    return base64.b64encode(next(value for field, value in fields(spec) if field == 2)).decode()


def t5(size: int, text: list[str]) -> str:
    names = ["<pad>", "</s>", "<unk>"]
    tokenizer = Tokenizer(Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(text, trainers.UnigramTrainer(vocab_size=size, show_progress=False, special_tokens=names, unk_token="<unk>"))
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    tokens = [added(name) for name in names] + [added("<extra_id_0>"), added("<extra_id_1>")]
    return finish(tokenizer, tokens, normalizer=dict(type="Precompiled", precompiled_charsmap=charsmap()))


KINDS = dict(gpt2=gpt2, llama3=llama3, qwen2=qwen2, llama2=llama2, mistral=mistral, gemma=gemma, bert=bert, t5=t5)


def make(kind: str, size: int = 1500, text: list[str] | None = None) -> str:
    return KINDS[kind](size, text if text is not None else training_text(7))
