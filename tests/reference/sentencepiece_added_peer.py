"""transformers' sentencepiece tokenizers, for tokens that are added to a model. usage: … DIRECTORY SEED TEXTS

For some of the models that sentencepiece_peer.py has put into DIRECTORY: writes NAME.added.json with the added tokens, and
texts with their ids. Texts are hexadecimal."""

import json
import os
import random
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
from sentencepiece_peer import ODD, WORDS  # noqa: E402
from transformers import AddedToken  # noqa: E402
from transformers.tokenization_utils_sentencepiece import SentencePieceBackend  # noqa: E402

TOKENS = ["<|end|>", "<|end|>!", "[x]", "qq", "qqz", "😀😀"]
BLANKS = [" ", "  ", "\t", "\n", "\u00a0", "\u0085", "\u1680", "\u2003", "\u2028", "\u202f", "\u205f", "\u3000"]


def main(directory: Path, seed: int, texts: int) -> None:
    rng = random.Random(seed)
    for name in ("llama_like", "unigram", "bpe_bytes"):
        tokenizer = SentencePieceBackend(vocab_file=str(directory / f"{name}.model"), legacy=True, bos_token="<s>",
                                         eos_token="</s>", unk_token="<unk>")  # fmt: skip
        tokenizer.add_tokens([AddedToken(t, lstrip=rng.random() < 0.5, rstrip=rng.random() < 0.5) for t in TOKENS])
        cases = []
        for _ in range(texts):
            choices = [*TOKENS, *TOKENS, "<s>", "</s>", "<unk>", *WORDS, *BLANKS, *BLANKS, *ODD]
            text = "".join(rng.choice(choices) for _ in range(rng.randrange(10)))
            cases.append(dict(text=text.encode().hex(), ids=tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))))
        added = [dict(id=i, content=t.content, special=t.special, lstrip=t.lstrip, rstrip=t.rstrip)
                 for i, t in tokenizer.added_tokens_decoder.items()]  # fmt: skip
        facts = dict(added=added, vocab_size=len(tokenizer), cases=cases)
        (directory / f"{name}.added.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
