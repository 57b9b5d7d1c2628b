"""The trainer of the tokenizers package as a peer of ours. usage: bpe_trainer_peer.py DIRECTORY SEED COUNT

Writes random corpora, what to train on each (N.json) and the tokenizer that the package makes of it (N.tokenizer.json).
"""

import json
import os
import random
import sys
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers  # noqa: E402

REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
PATTERNS = {
    "gpt2": None,
    "llama3": WORDS + r"\p{N}{1,3}|" + REST,
    "qwen2": WORDS + r"\p{N}|" + REST,
    r"\w+|\s": r"\w+|\s",  # gaps between the matches
    r"(?=[A-Z])": r"(?=[A-Z])",  # matches of nothing
    r"[aeiou]+\s*": r"[aeiou]+\s*",
}
ODD = list(" \t\r.,!?'\"-_0123456789") + ["'s", "'LL", "'ſ", "don't", "é", "é", "ß", "東京", "日本語", "мир", "한국", "🙂", "👩‍👧",
    "\u00a0", "\u0085", "\u180e", "\u2028", "\u3000", "\u200b", "²", "Ⅷ", "٣", "\x00", "\x1c", "\x7f", "ａ", "ﷺ", "K"]  # fmt: skip
SPECIAL = ["<|endoftext|>", "<s>", "</s>", "<pad>", "a", "the", "é", "ab", "Ġ", "<|im_start|>"]


def random_line(rng: random.Random, letters: str) -> str:
    parts = []
    for _ in range(rng.randrange(14)):
        if rng.random() < 0.8:
            parts.append("".join(rng.choice(letters) for _ in range(rng.randrange(1, 9))))
        else:
            parts.append(rng.choice(ODD) * rng.choice([1, 1, 2, 3]))
        parts.append(" " * rng.choice([0, 1, 1, 1, 2]))
    if rng.random() < 0.01:  # a word for which ours has a way of its own
        parts.append("".join(rng.choice(letters.strip()) for _ in range(rng.choice([1023, 1024, 3000]))))
    return "".join(parts)


def main(directory: Path, seed: int, count: int) -> None:
    rng = random.Random(seed)
    for i in range(count):
        letters = rng.choice(["ab", "aaab", "abcdefgh", "etaoinshrdlu", "AbCdeF", "the quick", "aあ漢é"])
        files = []
        for k in range(rng.randrange(1, 4)):
            files.append(f"{i}-{k}.txt")
            ends = rng.choice(["\n", "\n", "\r\n", "\n\n"])
            text = ends.join(random_line(rng, letters) for _ in range(rng.choice([1, 5, 40, 200])))
            if i == k == 0:  # several blocks of ours, and a line that is longer than one
                lines = [random_line(rng, letters) for _ in range(500)]
                text = "\n".join(rng.choices(lines, k=40000)) + " ".join(rng.choices(lines, k=60000)) + "\nend"
            (directory / files[-1]).write_bytes((text + rng.choice([".", "\n"])).encode())
        name = rng.choice(list(PATTERNS))
        special = rng.sample(SPECIAL, rng.randrange(4))
        options = dict(vocab_size=rng.choice([256 + len(special), 300, 400, 600, 5000]),
                       min_frequency=rng.choice([0, 0, 1, 2, 5]), special_tokens=special)  # fmt: skip
        longest = rng.choice([None, None, 3, 5, 16])
        tokenizer = Tokenizer(models.BPE())
        if PATTERNS[name] is None:
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        else:
            split = pre_tokenizers.Split(Regex(PATTERNS[name]), "isolated")
            byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), max_token_length=longest,
                                      show_progress=False, **options)  # fmt: skip
        tokenizer.train([str(directory / file) for file in files], trainer)
        tokenizer.save(str(directory / f"{i}.tokenizer.json"))
        task = options | dict(files=files, pattern=name, max_token_length=longest or 0)
        (directory / f"{i}.json").write_text(json.dumps(task))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
