"""How the tokenizers package splits texts around every character. usage: split_peer.py FILE PATTERN_NAME…

Of the blocks that are all of one kind, such as the ideographs, only some are taken.
Writes texts and the lengths of their words, in bytes, as JSON: {pattern: [[text, [length, …]], …]}."""

import json
import sys

from bpe_trainer_peer import PATTERNS
from tokenizers import Regex, pre_tokenizers

CODES = [c for c in [*range(0x3100), *range(0xA000, 0xAC10), *range(0xF900, 0x1FC00), 0x20000, 0x2B739, 0x2EBF0, 0x2EE5E, 0x31350, 0xE0100, 0x10FFFF] if not 0xD800 <= c < 0xE000]
GROUP = 512


def main(path: str, names: list[str]) -> None:
    out = {}
    for name in names:
        gpt2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
        split = pre_tokenizers.Split(Regex(PATTERNS[name] or gpt2), "isolated")
        out[name] = []
        for i in range(0, len(CODES), GROUP):
            # A letter, a digit, a mark, a blank and a quote beside the character say what it counts as.
            text = "\n".join(f"a{c}a1{c}1!{c}! {c} '{c}" for c in map(chr, CODES[i : i + GROUP]))
            words = [word for word, _ in split.pre_tokenize_str(text)]
            assert "".join(words) == text
            out[name].append([text, [len(word.encode()) for word in words]])
    with open(path, "w") as file:
        json.dump(out, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
