"""Generation on the CPU against transformers, alternating in one run, and against the memory bandwidth limit.
usage: generate_bench.py [--easydel PROGRAM] [--rounds N] [--cpu KIND|all] [--processor-time]

Prints decode and prefill tokens per second at batch 1 in float32 and bfloat16, the ratios, the share of the machine's
read bandwidth, the time from the start of the process to the first token of a small model, and how memory grows over
10,000 tokens. --processor-time is for a machine with other load: only decode and prefill, as the processor's time of one
thread, the median of the rounds."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import cpu_kinds
import processor_time

SHAPE = dict(model_type="llama", hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
             num_key_value_heads=3, vocab_size=49152, max_position_embeddings=16384, tie_word_embeddings=True,
             rms_norm_eps=1e-5)
SMALL = dict(SHAPE, hidden_size=384, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=6,
             num_key_value_heads=6)  # 29 M parameters
PROMPT, NEW = 128, 64

PEER = """
import json, sys, time, torch
from transformers import LlamaConfig, LlamaForCausalLM
shape, prompt, new, dtype = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
shape.pop("model_type")
model = LlamaForCausalLM(LlamaConfig(**shape, eos_token_id=None, bos_token_id=None)).eval().to(getattr(torch, dtype))
ids = torch.randint(shape["vocab_size"], (1, prompt))
mask = torch.ones_like(ids)
def generate(count):
    start = time.perf_counter()
    model.generate(ids, attention_mask=mask, max_new_tokens=count, min_new_tokens=count, do_sample=False, pad_token_id=0)
    return time.perf_counter() - start
generate(2)
first = min(generate(1) for _ in range(3))
decode = (new - 1) / (min(generate(new) for _ in range(2)) - first) if new > 1 else 0
print(json.dumps(dict(first=first, decode=decode)))
"""

# What two threads can read: sums over far more memory than the caches hold.
READ = """
import time, torch
x = torch.ones(192 * 2**20)
best = 0
for _ in range(6):
    start = time.perf_counter(); x.sum(); best = max(best, x.numel() * 4 / (time.perf_counter() - start))
print(best)
"""


def peer(code: str, *arguments: str) -> str:
    return subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True).stdout.splitlines()[-1]


def ours(program: str, config: pathlib.Path, dtype: str) -> dict:
    done = subprocess.run([program, "bench", "generate", "--config", str(config), "--prompt", str(PROMPT), "--new", str(NEW),
                           "--dtype", dtype, "--rounds", "2", "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


# The same runs as processor_time.generation's, in one process: what differs is counted inside it.
PEER_BY_PROCESSOR = """
import json, resource, sys, torch
from transformers import LlamaConfig, LlamaForCausalLM
shape, prompt, new, dtype = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
shape.pop("model_type")
model = LlamaForCausalLM(LlamaConfig(**shape, eos_token_id=None, bos_token_id=None)).eval().to(getattr(torch, dtype))
ids = torch.randint(shape["vocab_size"], (1, prompt))
def generate(count):
    before = resource.getrusage(resource.RUSAGE_SELF)
    model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count, do_sample=False, pad_token_id=0)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
generate(2)
first = sum(generate(1) for _ in range(3)) / 3
print(json.dumps(dict(prefill=prompt / first, decode=new / (sum(generate(1 + new) for _ in range(2)) / 2 - first))))
"""


def compare_by_processor(program: str, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.json"
        config.write_text(json.dumps(SHAPE))
        own, theirs = ({"fp32": [], "bf16": []} for _ in range(2))
        for _ in range(rounds):
            for dtype, name in (("fp32", "float32"), ("bf16", "bfloat16")):
                own[dtype].append(processor_time.generation(program, ["--config", str(config), "--dtype", dtype], 1, PROMPT, NEW, 3))
                text = processor_time.run([sys.executable, "-c", PEER_BY_PROCESSOR, json.dumps(SHAPE), str(PROMPT), str(NEW), name])[1]
                theirs[dtype].append(json.loads(text.splitlines()[-1]))
    median = {(dtype, key): [statistics.median(r[key] for r in side[dtype]) for side in (own, theirs)]
              for dtype in own for key in ("decode", "prefill")}
    for (dtype, key), (mine, other) in median.items():
        print(f"{key:7} {dtype} {mine:.1f} tokens/s of the processor, transformers {other:.1f}: ratio {mine / other:.2f}", flush=True)
    print(f"decode  bf16 {median['bf16', 'decode'][0] / median['fp32', 'decode'][0]:.2f} of fp32", flush=True)


def first_token(program: str, directory: pathlib.Path) -> float:
    """Seconds from the start of the process until the first token is printed."""
    start = time.perf_counter()
    with subprocess.Popen([program, "generate", str(directory), "--input-ids", "5,6,7,8", "--max-new-tokens", "4"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        process.stdout.read(1)
        seconds = time.perf_counter() - start
        process.stdout.read()
    return seconds


def resident(process: subprocess.Popen) -> int:
    for line in open(f"/proc/{process.pid}/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def memory_growth(program: str, directory: pathlib.Path, tokens: int, cache_bytes: int) -> None:
    with subprocess.Popen([program, "generate", str(directory), "--input-ids", "5", "--max-new-tokens", str(tokens),
                           "--eos-token-id", "-1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        seen, early, late = 0, 0, 0
        while byte := process.stdout.read(1):
            seen += byte == b" "
            if seen == 500 and not early:
                early = resident(process)
            if seen == tokens - 100 and not late:
                late = resident(process)
        process.wait()
    print(f"memory over {seen + 1} tokens: {early / 2**20:.1f} MiB after 500, {late / 2**20:.1f} at the end: "
          f"{(late - early) / 2**20:.1f} MiB more, of which the cache fills {cache_bytes * (tokens - 600) / tokens / 2**20:.1f}")


def compare(program: str, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.json"
        config.write_text(json.dumps(SHAPE))
        best = dict(read=0.0, theirs=0.0, fp32=0.0, bf16=0.0, prefill=0.0, their_prefill=0.0, prefill_bf16=0.0,
                    their_prefill_bf16=0.0)
        shares = []  # of the bandwidth, which varies from minute to minute: both are measured side by side
        for _ in range(rounds):
            read = float(peer(READ))
            best["read"] = max(best["read"], read)
            for dtype in ("fp32", "bf16"):
                report = ours(program, config, dtype)
                best[dtype] = max(best[dtype], report["decode_tokens_per_second"])
                prefill = "prefill" if dtype == "fp32" else "prefill_bf16"
                best[prefill] = max(best[prefill], report["prefill_tokens_per_second"])
                if dtype == "fp32":
                    parameters = report["parameters"]
                    shares.append(report["decode_tokens_per_second"] * parameters * 4 / max(read, float(peer(READ))))
            theirs = json.loads(peer(PEER, json.dumps(SHAPE), str(PROMPT), str(NEW), "float32"))
            best["theirs"] = max(best["theirs"], theirs["decode"])
            best["their_prefill"] = max(best["their_prefill"], PROMPT / theirs["first"])
            first = json.loads(peer(PEER, json.dumps(SHAPE), str(PROMPT), "1", "bfloat16"))["first"]
            best["their_prefill_bf16"] = max(best["their_prefill_bf16"], PROMPT / first)
        print(f"decode  fp32 {best['fp32']:.1f} tokens/s, transformers {best['theirs']:.1f}: ratio {best['fp32'] / best['theirs']:.2f};"
              f" of what memory allows ({best['read'] / 1e9:.1f} GB/s, {best['read'] / (parameters * 4):.1f} tokens/s):"
              f" {statistics.median(shares):.2f}, the median of {', '.join(f'{share:.2f}' for share in shares)}")
        print(f"decode  bf16 {best['bf16']:.1f} tokens/s: {best['bf16'] / best['fp32']:.2f} of fp32")
        for dtype, suffix in (("fp32", ""), ("bf16", "_bf16")):
            own, theirs = best["prefill" + suffix], best["their_prefill" + suffix]
            print(f"prefill {dtype} {own:.0f} tokens/s, transformers {theirs:.0f}: ratio {own / theirs:.2f}")

        from transformers import LlamaConfig, LlamaForCausalLM
        small = {key: value for key, value in SMALL.items() if key != "model_type"}
        model = LlamaForCausalLM(LlamaConfig(**small, eos_token_id=None, bos_token_id=None))
        directory = pathlib.Path(folder) / "small"
        model.save_pretrained(directory)
        count = sum(p.numel() for p in model.parameters())
        print(f"first token {min(first_token(program, directory) for _ in range(5)):.2f} s after the start, {count / 1e6:.0f} M parameters")
        cache = 2 * SMALL["num_hidden_layers"] * SMALL["num_key_value_heads"] * 64 * 4 * 10000
        memory_growth(program, directory, 10000, cache)


def main() -> None:
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--easydel", default=str(root / "build/release/bin/easydel"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processor-time", action="store_true", help="of one thread, instead of the clock's")
    cpu_kinds.add_argument(parser)
    a = parser.parse_args()
    for _ in cpu_kinds.chosen(a.cpu, a.easydel):
        (compare_by_processor if a.processor_time else compare)(a.easydel, a.rounds)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
