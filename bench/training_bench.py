#!/usr/bin/env python3
"""Training on one GPU: float8 against bfloat16, weights in float32, one row of 131,072 tokens, offloaded states.

usage: training_bench.py [float8 | loss | weights | long | offload]...      (without arguments: all)

float8   steps of an 8 B shape, 2 x 4,096 tokens: bf16, rowwise, tensorwise
loss     500 steps of a small model on the demo's text: how far float8's loss is from bf16's at the end
weights  the 1 B shape, 8 x 2,048 tokens: weights in bf16 and in float32
long     one row of 131,072 tokens with the 1 B shape, memory left to the program; and by policies
offload  the 1 B shape, float32 weights, 2 x 4,096 tokens in four minibatches: with and without offload_optimizer
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONFIGS = ROOT / "bench" / "configs"
TEXT = ROOT / "examples" / "demo" / "pride_and_prejudice.txt"


def run(program: pathlib.Path, *arguments) -> subprocess.CompletedProcess:
    return subprocess.run([program, *map(str, arguments)], text=True, capture_output=True)


def steps(program, config: str, batch: int, length: int, *more, count: int = 6, param_dtype: str = "bf16") -> dict | None:
    done = run(program, "bench", "train", "--config", CONFIGS / config, "--batch", batch, "--length", length, "--dtype", "bf16",
               "--param-dtype", param_dtype, "--steps", count, "--json", *more)
    name = " ".join(["bench train", config, f"{batch} x {length}", param_dtype, *map(str, more)])
    if done.returncode != 0:
        print(f"{name}: {done.stderr.strip()[-300:]}", flush=True)
        return None
    result = json.loads(done.stdout)
    print(f"{name}: {result['median_tokens_per_second']:,.0f} tokens/s (best {result['tokens_per_second']:,.0f}), "
          f"{result['peak_bytes'] / 2**30:.1f} GiB, loss {result['first_loss']:.4f} to {result['loss']:.4f}", flush=True)
    return result


def float8(program) -> None:
    plain = steps(program, "llama-3.1-8b.json", 2, 4096)
    for scales in ("rowwise", "tensorwise"):
        rounded = steps(program, "llama-3.1-8b.json", 2, 4096, "--fp8", scales)
        if plain and rounded:
            print(f"  {scales} / bf16: {rounded['median_tokens_per_second'] / plain['median_tokens_per_second']:.3f}", flush=True)


def weights(program) -> None:
    for dtype in ("bf16", "fp32"):
        steps(program, "llama-3.2-1b.json", 8, 2048, count=20, param_dtype=dtype)


def losses(program, config: str, rows: pathlib.Path, folder: pathlib.Path, count: int, *more) -> tuple[list[dict], str]:
    output = pathlib.Path(tempfile.mkdtemp(dir=folder))
    done = run(program, "train", CONFIGS / config, "--data", rows, "--output", output, "--steps", count, "--dtype", "bf16",
               "--no-shuffle", "--set", "do_last_save=false", "--set", "log_steps=1", "--set", "report_steps=1",
               "--set", "progress_bar_type=none", *more)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-2000:])
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "loss" in line], done.stderr


def loss(program) -> None:
    text = TEXT.read_bytes()
    width, batch, count = 512, 32, 500
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rows = folder / "rows.jsonl"
        with rows.open("w") as out:
            for i in range(batch * count):
                at = i * 467 % (len(text) - width)
                out.write(json.dumps({"input_ids": list(text[at:at + width])}) + "\n")
        usual = ["--batch", batch, "--length", width, "--learning-rate", "1e-3", "--scheduler", "constant", "--warmup", 20]
        ends = {}
        for kind in ([], ["--fp8", "rowwise"], ["--fp8", "tensorwise"]):
            begin = time.monotonic()
            metrics, _ = losses(program, "llama-34m.json", rows, folder, count, *usual, *kind)
            last = [row["loss"] for row in metrics[-50:]]
            ends[kind[-1] if kind else "bf16"] = sum(last) / len(last)
            print(f"loss of the last 50 of {len(metrics)} steps, {kind[-1] if kind else 'bf16'}: {sum(last) / len(last):.4f} "
                  f"({time.monotonic() - begin:.0f} s)", flush=True)
        for kind in ("rowwise", "tensorwise"):
            print(f"  {kind}: {100 * (ends[kind] / ends['bf16'] - 1):+.2f} % of bf16's", flush=True)


def long(program) -> None:
    length = 131072
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rows = folder / "rows.jsonl"
        text = (TEXT.read_bytes() * 2)[:length]
        rows.write_text("".join(json.dumps({"input_ids": list(text)}) + "\n" for _ in range(4)))
        metrics, said = losses(program, "llama-3.2-1b.json", rows, folder, 4, "--batch", 1, "--length", length, "--param-dtype",
                               "bf16", "--set", "track_memory=0.2")
        print("\n".join(line for line in said.splitlines() if "gradient_checkpointing" in line or "estimated memory" in line))
        print(f"easydel train, 1 x {length}: {metrics[-1].get('tokens_per_second', 0):,.0f} tokens/s, "
              f"{metrics[-1].get('memory_max', 0) / 2**30:.1f} GiB", flush=True)
    for policy in ("checkpoint_dots", "mlp_notsaveable", "nothing_saveable"):
        steps(program, "llama-3.2-1b.json", 1, length, "--gradient-checkpointing", policy, count=2)


def offload(program) -> None:
    text = TEXT.read_bytes()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rows = folder / "rows.jsonl"
        rows.write_text("".join(json.dumps({"input_ids": list(text[i * 4096:(i + 1) * 4096])}) + "\n" for i in range(64)))
        for more in ([], ["--set", "offload_optimizer=true"]):
            metrics, _ = losses(program, "llama-3.2-1b.json", rows, folder, 5, "--batch", 8, "--accumulate", 4, "--length", 4096,
                                "--set", "track_memory=0.1", *more)
            print(f"{more[-1] if more else 'states on the GPU'}: {metrics[-1]['tokens_per_second']:,.0f} tokens/s, "
                  f"{metrics[-1]['memory_max'] / 2**30:.1f} GiB, losses {[round(row['loss'], 4) for row in metrics]}", flush=True)


KINDS = {"float8": float8, "loss": loss, "weights": weights, "long": long, "offload": offload}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help=", ".join(KINDS))
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "cuda" / "bin" / "easydel")
    given = parser.parse_args()
    if unknown := [kind for kind in given.kinds if kind not in KINDS]:
        sys.exit(f"training_bench.py: unknown: {', '.join(unknown)}; known: {', '.join(KINDS)}")
    for kind in given.kinds or KINDS:
        begin = time.monotonic()
        KINDS[kind](given.program)
        print(f"== {kind}: {time.monotonic() - begin:.0f} s", flush=True)
