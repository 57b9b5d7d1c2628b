"""Encoding against the tokenizers package, alternating in one run: the published kinds, one core and two.
usage: tokenizer_bench.py [TOKENIZER_BENCH]   (default: build/release/bench/tokenizer_bench)

Prints MB/s of both sides and their ratio; above 1 is faster than the package. "ids" is compared with its encode_batch_fast,
"offsets" with its encode_batch. The tokenizers are trained here, to 32,000 tokens, on Python's standard library, comments
and code; the texts are other parts of it, with a tenth in other scripts, as 500 of 2 kB, and as 5 of 200 kB for two kinds,
of which llama2 takes a text for one word."""

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


def library() -> str:
    """What people wrote: the sources of the standard library, shuffled, without its tables of numbers."""
    root = pathlib.Path(os.__file__).parent
    files = sorted(file for file in root.rglob("*.py") if not {"site-packages", "test", "encodings"} & set(file.parts))
    random.Random(5).shuffle(files)
    return "\n".join(file.read_text(encoding="utf-8", errors="ignore") for file in files)


def pieces(text: str, size: int, count: int, foreign: list[str]) -> list[str]:
    rng = random.Random(6)
    out = []
    for i in range(count):
        words = "".join(rng.choices(foreign, k=size // 60)) if i % 2 else " ".join(rng.choices(foreign, k=size // 60))
        out.append(text[i * size:(i + 1) * size - len(words)] + words)
    return out


def run(command: list[str]) -> dict:
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main() -> None:
    program = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/release/bench/tokenizer_bench")
    from tokenizers_draw import FOREIGN
    from tokenizers_kinds import make

    text = library()
    training = text[3_000_000:6_000_000].split("\n")
    with tempfile.TemporaryDirectory() as directory:
        base = pathlib.Path(directory)
        for name, count, size in (("lines", 500, 2000), ("long", 5, 200_000)):
            texts = pieces(text, size, count, FOREIGN)
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
