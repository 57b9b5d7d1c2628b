"""Training a byte-level BPE against the tokenizers package, alternating in one run, each on one core.
usage: tokenizer_train_bench.py [EASYDEL [TEXT_FILE]]   (default: build/release/bin/easydel, random words)

Prints the times of whole processes, their peak memory above that of bare ones, and the ratios; fails unless both find the same merges."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

VOCAB_SIZE, MEGABYTES, ROUNDS = 32000, 30, 3

PEER = """
import sys, time
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.train([sys.argv[1]], trainers.BpeTrainer(vocab_size=int(sys.argv[3]), special_tokens=["<|endoftext|>"],
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
tokenizer.save(sys.argv[2] + "/tokenizer.json")
"""


def write_words(path: pathlib.Path) -> None:
    """Zipf's law over words of random syllables, so that there are many rare ones."""
    rng = random.Random(1)
    syllables = ["".join(rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiouäé") for _ in range(2)) for _ in range(300)]
    words = ["".join(rng.choices(syllables, k=rng.choice([1, 1, 2, 3]))) for _ in range(200000)]
    weights = [1 / (i + 1) for i in range(len(words))]
    with open(path, "w") as file:
        while file.tell() < MEGABYTES << 20:
            file.write(" ".join(rng.choices(words, weights, k=200)) + ",\n")


def run(command: list[str]) -> tuple[float, int]:
    environment = os.environ | {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return time.perf_counter() - start, usage.ru_maxrss << 10


def main() -> None:
    root = pathlib.Path(__file__).resolve().parent.parent
    program = sys.argv[1] if len(sys.argv) > 1 else str(root / "build/release/bin/easydel")
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        text = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else directory / "words.txt"
        if len(sys.argv) <= 2:
            write_words(text)
        (directory / "theirs").mkdir()
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(run([program, "tokenizer-train", str(directory / "ours"), "--files", str(text), "--threads", "1",
                             "--vocab-size", str(VOCAB_SIZE)]))  # fmt: skip
            theirs.append(run([sys.executable, "-c", PEER, str(text), str(directory / "theirs"), str(VOCAB_SIZE)]))
        models = [json.loads((directory / side / "tokenizer.json").read_text())["model"] for side in ("ours", "theirs")]
        assert models[0] == models[1], "the two have found different merges"
        best = [min(seconds for seconds, _ in side) for side in (ours, theirs)]
        bare = run([program, "--version"])[1], run([sys.executable, "-c", "import tokenizers"])[1]
        memory = [max(peak for _, peak in side) - start for side, start in zip((ours, theirs), bare)]
        print(f"{text.stat().st_size / 2**20:.0f} MiB to {len(models[0]['vocab'])} tokens: easydel {best[0]:.2f} s, tokenizers "
              f"{best[1]:.2f} s: {best[1] / best[0]:.1f} times as fast; peak {memory[0] / 2**20:.0f} MiB and "
              f"{memory[1] / 2**20:.0f}: ratio {memory[0] / memory[1]:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
