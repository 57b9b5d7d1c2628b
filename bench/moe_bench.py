"""A mixture-of-experts block, forward and backward, against transformers' (its default and its loop), alternating.
usage: moe_bench.py [--device cpu|cuda] [--hidden N --inner N --experts N --top-k N --tokens N] [--dtype fp32|bf16]
                    [--rounds N] [--easydel PROGRAM]

Without sizes: on the CPU hidden 512, 8 experts of 1024, top 2, 2048 tokens in float32; on CUDA hidden 2048, 64 experts of
1408, top 6, 16384 tokens in bfloat16. Both draw weights and tokens of the same sizes; the gradients of all of them are
made. Prints milliseconds and ratios."""

import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

PEER = """
import sys, time, json, torch
from transformers import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
hidden, inner, experts, top_k, tokens, steps = map(int, sys.argv[1:7])
dtype, device, *implementations = sys.argv[7:]
torch.set_default_dtype(dict(fp32=torch.float32, bf16=torch.bfloat16)[dtype])
wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)

def seconds(implementation):
    config = MixtralConfig(hidden_size=hidden, intermediate_size=inner, num_local_experts=experts, num_experts_per_tok=top_k)
    config._experts_implementation = implementation
    with torch.device(device):
        block = MixtralSparseMoeBlock(config)
        for parameter in block.parameters(): torch.nn.init.normal_(parameter, std=0.02)
        x = torch.randn(1, tokens, hidden, requires_grad=True)
    best = 1e30
    for step in range(steps + 2):
        wait()
        start = time.perf_counter()
        y = block(x)
        y = y[0] if isinstance(y, tuple) else y
        y.backward(torch.ones_like(y))
        wait()
        if step >= 2: best = min(best, time.perf_counter() - start)
        block.zero_grad(set_to_none=True)
        x.grad = None
    return best

print(json.dumps({name: seconds(name) for name in implementations}))
"""
IMPLEMENTATIONS = ("grouped_mm", "eager")


def run(command: list[str]) -> dict:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr[-2000:])
    return json.loads(done.stdout[done.stdout.index("{"):])


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("hidden", "inner", "experts", "top-k", "tokens"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--dtype")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--easydel", default=str(ROOT / "build/release/bin/easydel"))
    a = parser.parse_args()
    usual = (512, 1024, 8, 2, 2048) if a.device == "cpu" else (2048, 1408, 64, 6, 16384)
    sizes = [given or default for given, default in zip((a.hidden, a.inner, a.experts, a.top_k, a.tokens), usual)]
    dtype = a.dtype or ("fp32" if a.device == "cpu" else "bf16")
    names = ("hidden", "inner", "experts", "top-k", "tokens")
    ours = [a.easydel, "bench", "moe", *(x for n, s in zip(names, sizes) for x in (f"--{n}", str(s))), "--dtype", dtype,
            "--device", a.device, "--steps", str(a.steps), "--json"]
    peer = [sys.executable, "-c", PEER, *map(str, sizes), str(a.steps), dtype, a.device, *IMPLEMENTATIONS]
    best = dict.fromkeys(("easydel", *IMPLEMENTATIONS), float("inf"))
    for _ in range(a.rounds):
        for name, seconds in {"easydel": run(ours)["seconds"], **run(peer)}.items():
            best[name] = min(best[name], seconds)
    print(f"easydel {best['easydel'] * 1e3:.1f} ms; transformers with grouped_mm {best['grouped_mm'] * 1e3:.1f} ms: ratio "
          f"{best['grouped_mm'] / best['easydel']:.2f}; with its loop {best['eager'] * 1e3:.1f} ms: ratio "
          f"{best['eager'] / best['easydel']:.2f}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
