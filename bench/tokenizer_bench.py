"""Encoding against the tokenizers package, in turns in one run: the published kinds, one core and two.
usage: tokenizer_bench.py [TOKENIZER_BENCH]   (default: build/release/bench/tokenizer_bench)

Prints MB/s of both sides and their ratio; above 1 is faster than the package. "ids" stands beside its encode_batch_fast,
"offsets" beside its encode_batch. The tokenizers are trained here, to 32,000 tokens at most; the texts are sentences of
the training text's kind, with a tenth in other scripts, as 400 lines of 2 kB, and, for the kinds that see a text as one
word, as 4 of 200 kB."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/reference"))
ROUNDS = 5

PEER = """
import json, os, sys, time
tokenizer_path, lines, threads, rounds, mode = sys.argv[1:]
os.environ["RAYON_NUM_THREADS"] = threads
os.environ["TOKENIZERS_PARALLELISM"] = "false" if threads == "1" else "true"
from tokenizers import Tokenizer
start = time.perf_counter()
tokenizer = Tokenizer.from_file(tokenizer_path)
load = time.perf_counter() - start
texts = [json.loads(line) for line in open(lines, encoding="utf-8")]
encode = tokenizer.encode_batch if mode == "offsets" else tokenizer.encode_batch_fast
best = 1e30
for _ in range(int(rounds)):
    start = time.perf_counter()
    batch = encode(texts)
    best = min(best, time.perf_counter() - start)
print(json.dumps(dict(seconds=best, tokens=sum(len(encoding) for encoding in batch), load_seconds=load)))
"""


def vocabulary(rng: random.Random) -> list[str]:
    from tokenizers_draw import FOREIGN, SYLLABLES

    words = ["".join(rng.choices(SYLLABLES, k=rng.choice([1, 1, 2, 2, 3, 4]))) for _ in range(20000)]
    return words + FOREIGN * 100


def sentences(rng: random.Random, words: list[str], size: int) -> str:
    """Words as often as Zipf has them, with the punctuation and line breaks of prose."""
    parts, length = [], 0
    while length < size:
        word = words[min(int(rng.paretovariate(0.6)) - 1, len(words) - 1)]
        draw = rng.random()
        if draw < 0.02:
            word = str(rng.randint(0, 99999))
        word += "," if draw > 0.93 else ". " if draw > 0.88 else "\n" if draw > 0.87 else "'s" if draw > 0.86 else ""
        parts.append(word.capitalize() if rng.random() < 0.1 else word)
        length += len(word) + 1
    return " ".join(parts)


def run(command: list[str]) -> dict:
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main() -> None:
    program = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/release/bench/tokenizer_bench")
    from tokenizers_kinds import make

    rng = random.Random(5)
    words = vocabulary(rng)
    rng.shuffle(words)
    training = [sentences(rng, words, 2000) for _ in range(400)]
    with tempfile.TemporaryDirectory() as directory:
        base = pathlib.Path(directory)
        for name, count, size in (("lines", 400, 2000), ("long", 4, 200_000)):
            texts = [sentences(rng, words, size) for _ in range(count)]
            (base / name).write_text("".join(json.dumps(text) + "\n" for text in texts), encoding="utf-8")
        print(f"{'kind':8} {'texts':6} {'cores':5} {'what':8} {'ours MB/s':>10} {'package':>8} {'ratio':>6}")
        for kind in ("gpt2", "llama3", "qwen2", "llama2", "bert", "t5"):
            path = base / f"{kind}.json"
            path.write_text(make(kind, 32000, training), encoding="utf-8")
            for texts in ("lines", "long") if kind in ("llama3", "llama2") else ("lines",):
                megabytes = sum(len(json.loads(line).encode()) for line in (base / texts).open()) / 1e6
                for threads in ("1", "2"):
                    for mode in ("ids", "offsets"):
                        arguments = [str(path), str(base / texts), threads, str(ROUNDS), mode]
                        ours, theirs = [], []
                        for _ in range(2):
                            ours.append(run([program, *arguments]))
                            theirs.append(run([sys.executable, "-c", PEER, *arguments]))
                        assert ours[0]["tokens"] == theirs[0]["tokens"], (kind, ours[0], theirs[0])
                        mine, peer = (min(row["seconds"] for row in side) for side in (ours, theirs))
                        print(f"{kind:8} {texts:6} {threads:5} {mode:8} {megabytes / mine:10.1f} {megabytes / peer:8.1f} "
                              f"{peer / mine:6.2f}", flush=True)


if __name__ == "__main__":
    main()
