"""A hybrid of linear attention, attention and experts against transformers' torch path, in one run.
usage: hybrid_bench.py [--config FILE] [--batch N] [--length N] [--dtype fp32|bf16] [--device cpu|cuda] [--new N] [--easydel PROGRAM]

Training steps (AdamW) and greedy decoding at batch 1 after a prompt of 128 tokens, with random weights. Without arguments:
Qwen3-Next's shape scaled to 1 B parameters (configs/qwen3-next-1b.json). Prints tokens per second, peak memory and
ratios, and whether transformers found kernels of flash-linear-attention, which its torch path does without."""

import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

PEER = """
import sys, time, json, importlib.util, torch
from transformers import AutoConfig, AutoModelForCausalLM
path, batch, length, new, steps = sys.argv[1], *map(int, sys.argv[2:6])
dtype, device = dict(fp32=torch.float32, bf16=torch.bfloat16)[sys.argv[6]], sys.argv[7]
config = AutoConfig.from_pretrained(path)
with torch.device(device):
    torch.set_default_dtype(dtype)
    model = AutoModelForCausalLM.from_config(config)
wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
model.generation_config.eos_token_id = None

model.eval()
prompt = torch.randint(config.vocab_size, (1, 128), device=device)
def generate(count):
    wait()
    start = time.perf_counter()
    with torch.inference_mode():
        out = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=count, min_new_tokens=count,
                             do_sample=False, pad_token_id=0)
    wait()
    assert out.shape[1] == 128 + count
    return time.perf_counter() - start
generate(2)
decode = (new - 1) / (min(generate(new) for _ in range(2)) - min(generate(1) for _ in range(2)))

model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
ids = torch.randint(config.vocab_size, (batch, length), device=device)
if device == "cuda": torch.cuda.reset_peak_memory_stats()
best = 1e30
for step in range(steps + 1):
    wait()
    start = time.perf_counter()
    loss = model(input_ids=ids, labels=ids, use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    wait()
    if step >= 1: best = min(best, time.perf_counter() - start)
print(json.dumps(dict(tokens_per_second=batch * length / best, loss=loss.item(), decode_tokens_per_second=decode,
                      parameters=sum(p.numel() for p in model.parameters()),
                      peak_bytes=torch.cuda.max_memory_allocated() if device == "cuda" else 0,
                      has_kernels=importlib.util.find_spec("fla") is not None)))
"""


def run(command: list) -> dict:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr[-3000:])
    return json.loads(done.stdout[done.stdout.index("{"):])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default=str(ROOT / "bench/configs/qwen3-next-1b.json"))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--easydel", default=str(ROOT / "build/cuda/bin/easydel"))
    a = parser.parse_args()
    common = ["--dtype", a.dtype, "--device", a.device, "--json"]
    trained = run([a.easydel, "bench", "train", "--config", a.config, "--batch", a.batch, "--length", a.length,
                   "--param-dtype", a.dtype, "--steps", a.steps, *common])
    print(f"easydel: training {trained['tokens_per_second']:.0f} tokens/s, loss {trained['loss']:.3f}, peak"
          f" {trained['peak_bytes'] / 2**30:.1f} GiB", flush=True)
    decoded = run([a.easydel, "bench", "generate", "--config", a.config, "--prompt", 128, "--new", a.new, "--rounds", 2, *common])
    print(f"easydel: decoding {decoded['decode_tokens_per_second']:.1f} tokens/s, {decoded['parameters']} parameters", flush=True)
    theirs = run([sys.executable, "-c", PEER, a.config, a.batch, a.length, a.new, a.steps, a.dtype, a.device])
    print(f"transformers (flash-linear-attention: {theirs['has_kernels']}): training {theirs['tokens_per_second']:.0f} tokens/s,"
          f" loss {theirs['loss']:.3f}, peak {theirs['peak_bytes'] / 2**30:.1f} GiB; decoding"
          f" {theirs['decode_tokens_per_second']:.1f} tokens/s, {theirs['parameters']} parameters")
    print(f"ratios: training {trained['tokens_per_second'] / theirs['tokens_per_second']:.2f}, decoding"
          f" {decoded['decode_tokens_per_second'] / theirs['decode_tokens_per_second']:.2f}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
