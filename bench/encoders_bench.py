"""Encoder-decoders and towers on the CPU against transformers, in one run, with the same weights and inputs.
usage: encoders_bench.py [t5 | clip]... [--rounds N] [--program PROGRAM]

t5: greedy generation of 64 tokens from 64, of flan-t5-small's shape, batches of 1 and 8. clip: image and text embeddings of
ViT-B/32's shape, batches of 1 and 8 images with as many texts of 77 tokens. float32, one thread on each side; both keep their
weights in memory and take turns. What counts is the processor's time (user and system) of a run, the median over the rounds, so
that other programs on the machine matter little. The results are compared, too: tokens, and the largest difference of a value."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LENGTH, NEW = 64, 64

PEER = """
import json, resource, sys, time, torch, transformers
from safetensors.torch import load_file
torch.set_num_threads(1)
kind, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
model = (transformers.AutoModelForSeq2SeqLM if kind == "t5" else transformers.CLIPModel).from_pretrained(folder).eval()
inputs = load_file(folder + "/inputs.safetensors")
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
for line in sys.stdin:
    begin, before = time.perf_counter(), cpu()
    with torch.inference_mode():
        if kind == "t5":
            out = model.generate(**inputs, max_new_tokens=count, min_new_tokens=count, do_sample=False)
        else:
            found = model(**inputs)
            out = torch.cat([found.image_embeds.flatten(), found.text_embeds.flatten()])
    used, wall = cpu() - before, time.perf_counter() - begin
    print(json.dumps(dict(cpu=used, wall=wall, values=out.flatten().tolist())), flush=True)
"""


def write_t5(folder: pathlib.Path, rows: int) -> None:
    import torch
    from safetensors.torch import save_file
    from transformers import T5Config, T5ForConditionalGeneration
    torch.manual_seed(0)
    config = T5Config(d_model=512, d_ff=1024, d_kv=64, num_layers=8, num_decoder_layers=8, num_heads=6, vocab_size=32128,
                      feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0)
    T5ForConditionalGeneration(config).save_pretrained(folder)
    save_file({"input_ids": torch.randint(2, config.vocab_size, (rows, LENGTH))}, folder / "inputs.safetensors")


def write_clip(folder: pathlib.Path, rows: int) -> None:
    import torch
    from safetensors.torch import save_file
    from transformers import CLIPConfig, CLIPModel
    torch.manual_seed(0)
    model = CLIPModel(CLIPConfig())  # the defaults are ViT-B/32's
    model.save_pretrained(folder)
    ids = torch.randint(0, 49000, (rows, 77))
    ids[:, -1] = model.config.text_config.eos_token_id
    save_file({"input_ids": ids, "pixel_values": torch.randn(rows, 3, 224, 224)}, folder / "inputs.safetensors")


def ask(side: subprocess.Popen) -> dict:
    side.stdin.write("run\n")
    side.stdin.flush()
    line = side.stdout.readline()
    if not line:
        sys.exit("a program has ended")
    return json.loads(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="t5 | clip")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--program", default=str(ROOT / "build/release/bench/encoders_bench"))
    a = parser.parse_args()
    if not set(a.kinds) <= {"t5", "clip"}:
        parser.error(f"t5 or clip; got {' '.join(a.kinds)}")
    environment = os.environ | dict(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    for kind in a.kinds or ["t5", "clip"]:
        for rows in (1, 8):
            with tempfile.TemporaryDirectory() as name:
                dict(t5=write_t5, clip=write_clip)[kind](pathlib.Path(name), rows)
                words = [kind, name, str(NEW)]
                sides = [subprocess.Popen(command + words, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                         for command in ([a.program], [sys.executable, "-c", PEER])]
                found = [[ask(side) for side in sides] for _ in range(a.rounds + 1)][1:]  # the first run warms up
                for side in sides:
                    side.stdin.close()
                    side.wait()
            own, theirs = ([pair[i] for pair in found] for i in (0, 1))
            off = max(abs(x - y) for x, y in zip(own[0]["values"], theirs[0]["values"], strict=True))
            same = f"largest difference {off:.1e}" if kind == "clip" else "the same tokens" if off == 0 else "other tokens"
            cpu = [statistics.median(run["cpu"] for run in side) for side in (own, theirs)]
            wall = [min(run["wall"] for run in side) for side in (own, theirs)]
            print(f"{kind}, batch {rows}: easydel {cpu[0] * 1e3:.1f} ms of the processor, transformers {cpu[1] * 1e3:.1f}: ratio"
                  f" {cpu[1] / cpu[0]:.2f} (best by the clock {wall[0] * 1e3:.1f} and {wall[1] * 1e3:.1f} ms); {same}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
