"""Training steps against eager transformers with sdpa and torch's fused AdamW, alternating in one run.
usage: train_bench.py [--config FILE] [--batch N] [--length N] [--dtype fp32|bf16] [--device cpu|cuda] [--rounds N] [--easydel PROGRAM]
                      [--cpu KIND|all] [--processor-time]

Without arguments: the small Llama of configs/llama-34m.json on the CPU in float32, 4 rows of 512 tokens. Prints tokens
per second, the peak memory (on a CPU above that of the process before it has a model) and the ratios. --processor-time is
for a machine with other load: the processor's time of one thread, the median of the rounds."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import cpu_kinds
import processor_time

ROOT = pathlib.Path(__file__).resolve().parent.parent

PEER = """
import sys, time, json, torch
from transformers import AutoConfig, AutoModelForCausalLM
config, batch, length, dtype, device, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5], int(sys.argv[6])
dtype = dict(fp32=torch.float32, bf16=torch.bfloat16)[dtype]
def status(key):
    for line in open("/proc/self/status"):
        if line.startswith(key + ":"): return int(line.split()[1]) * 1024
before = status("VmRSS")
config = AutoConfig.from_pretrained(config)
with torch.device(device):
    torch.set_default_dtype(dtype)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
ids = torch.randint(config.vocab_size, (batch, length), device=device)
wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
best = 1e30
for step in range(steps + 2):
    wait()
    start = time.perf_counter()
    loss = model(input_ids=ids, labels=ids, use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    wait()
    if step >= 2: best = min(best, time.perf_counter() - start)
    loss = loss.item()
peak = torch.cuda.max_memory_allocated() if device == "cuda" else status("VmHWM") - before
print(json.dumps(dict(tokens_per_second=batch * length / best, peak_bytes=peak, loss=loss)))
"""


def run(command: list[str]) -> dict:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr[-2000:])
    text = done.stdout
    return json.loads(text[text.index("{"):])


def compare(a: argparse.Namespace) -> None:
    def command(side: int, steps: int) -> list[str]:
        if side == 1:
            return [sys.executable, "-c", PEER, a.config, str(a.batch), str(a.length), a.dtype, a.device, str(steps)]
        return [a.easydel, "bench", "train", "--config", a.config, "--batch", str(a.batch), "--length", str(a.length), "--dtype", a.dtype,
                "--param-dtype", a.dtype, "--device", a.device, "--steps", str(steps), "--json"]

    reports = ([], [])
    for _ in range(a.rounds):
        for side in (0, 1):
            if a.processor_time:
                few, (more, text) = processor_time.run(command(side, 1))[0], processor_time.run(command(side, 1 + a.steps))
                report = json.loads(text[text.index("{"):])
                report["tokens_per_second"] = a.batch * a.length * a.steps / (more - few)
            else:
                report = run(command(side, a.steps))
            reports[side].append(report)
    speed = [(statistics.median if a.processor_time else max)(r["tokens_per_second"] for r in side) for side in reports]
    memory = [statistics.median(r["peak_bytes"] for r in side) for side in reports]
    print(f"easydel {speed[0]:.0f} tokens/s, transformers {speed[1]:.0f}: ratio {speed[0] / speed[1]:.2f};"
          f" peak {memory[0] / 2**20:.0f} MiB and {memory[1] / 2**20:.0f}: ratio {memory[0] / memory[1]:.2f};"
          f" loss {reports[0][-1]['loss']:.3f} and {reports[1][-1]['loss']:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default=str(ROOT / "bench/configs/llama-34m.json"))
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--easydel", default=str(ROOT / "build/release/bin/easydel"))
    parser.add_argument("--processor-time", action="store_true", help="of one thread, instead of the clock's")
    cpu_kinds.add_argument(parser)
    a = parser.parse_args()
    for _ in cpu_kinds.chosen(a.cpu, a.easydel) if a.device == "cpu" else [None]:
        compare(a)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
