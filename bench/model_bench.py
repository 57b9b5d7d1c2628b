"""Forward, and forward with backward, of one Llama against transformers with sdpa, alternating in one run.
usage: model_bench.py [--program MODEL_BENCH] [--easydel PROGRAM] [--cpu KIND|all]

Prints tokens per second and the peak memory above that of the process before it loads the model, and the ratios."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import cpu_kinds

SHAPE = dict(hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=8,
             vocab_size=8192, max_position_embeddings=2048)
BATCH, TOKENS, STEPS, ROUNDS = 4, 512, 5, 3

PEER = """
import sys, time, json, torch
from transformers import AutoModelForCausalLM
def status(key):
    for line in open("/proc/self/status"):
        if line.startswith(key + ":"): return int(line.split()[1]) * 1024
directory, mode, batch, tokens, steps = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
before = status("VmRSS")
start = time.perf_counter()
model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="sdpa")
load = time.perf_counter() - start
ids = torch.randint(model.config.vocab_size, (batch, tokens))
best, loss = 1e30, 0.0
with torch.set_grad_enabled(mode == "train"):
    for _ in range(steps):
        start = time.perf_counter()
        out = model(input_ids=ids, labels=ids if mode == "train" else None, use_cache=False)
        if mode == "train":
            out.loss.backward()
            loss = out.loss.item()
            model.zero_grad(set_to_none=True)
        best = min(best, time.perf_counter() - start)
print(json.dumps(dict(tokens_per_second=batch * tokens / best, peak_bytes=status("VmHWM") - before, load_seconds=load, loss=loss)))
"""


def run(command: list[str]) -> dict:
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def compare(program: str) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    with tempfile.TemporaryDirectory() as directory:
        LlamaForCausalLM(LlamaConfig(**SHAPE)).save_pretrained(directory)
        for mode in ("forward", "train"):
            arguments = [directory, mode, str(BATCH), str(TOKENS), str(STEPS)]
            ours, theirs = [], []
            for _ in range(ROUNDS):
                ours.append(run([program, *arguments]))
                theirs.append(run([sys.executable, "-c", PEER, *arguments]))
            speed = [max(r["tokens_per_second"] for r in side) for side in (ours, theirs)]
            memory = [statistics.median(r["peak_bytes"] for r in side) for side in (ours, theirs)]
            print(f"{mode:8} easydel {speed[0]:8.0f} tokens/s, transformers {speed[1]:8.0f}: ratio {speed[0] / speed[1]:.2f};"
                  f" peak {memory[0] / 2**20:6.0f} MiB and {memory[1] / 2**20:6.0f}: ratio {memory[0] / memory[1]:.2f}", flush=True)


def main() -> None:
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(root / "build/release/bench/model_bench"))
    parser.add_argument("--easydel", default=str(root / "build/release/bin/easydel"))
    cpu_kinds.add_argument(parser)
    a = parser.parse_args()
    for _ in cpu_kinds.chosen(a.cpu, a.easydel):
        compare(a.program)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
