"""Models that see, against transformers without a compiler, in one run.
usage: vision_bench.py [vit | vl]... [--tiny] [--attention sdpa eager] [--dtype fp32|bf16] [--device cpu|cuda] [--steps N]
                       [--rounds N] [--program PROGRAM]

vit: forward and backward of ViT-L/14 on 64 images of 224 x 224. vl: a training step (AdamW) of Qwen2.5-VL-3B's shape, tower
and all, on 8 rows of 1,024 tokens with an image of 644 x 644 each (529 tokens). Weights, pixels and texts are random.
--tiny: a few layers of small models, to try the script. Prints milliseconds, peak memory and ratios."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DTYPES = dict(fp32="float32", bf16="bfloat16")

PEER = """
import sys, time, json, torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForImageClassification, AutoModelForImageTextToText
folder, kind, steps, dtype, device, attention = sys.argv[1], sys.argv[2], int(sys.argv[3]), getattr(torch, sys.argv[4]), *sys.argv[5:]
config = AutoConfig.from_pretrained(folder)
with torch.device(device):
    torch.set_default_dtype(dtype)
    model = dict(vit=AutoModelForImageClassification, vl=AutoModelForImageTextToText)[kind].from_config(config, attn_implementation=attention)
    torch.set_default_dtype(torch.float32)
model.train()
inputs = load_file(folder + "/inputs.safetensors", device=device)
if kind == "vl":
    inputs["use_cache"] = False
    inputs["mm_token_type_ids"] = (inputs["input_ids"] == config.image_token_id).long()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
best = 1e30
for step in range(steps + 2):
    wait()
    start = time.perf_counter()
    loss = model(**inputs).loss
    loss.backward()
    if kind == "vl": optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    wait()
    if step >= 2: best = min(best, time.perf_counter() - start)
print(json.dumps(dict(seconds=best, loss=loss.item(), parameters=sum(p.numel() for p in model.parameters()),
                      peak_bytes=torch.cuda.max_memory_allocated() if device == "cuda" else 0)))
"""


def write_vit(folder: pathlib.Path, tiny: bool, dtype) -> None:
    import torch
    from safetensors.torch import save_file
    from transformers import ViTConfig
    sizes = (dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=56) if tiny else
             dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, image_size=224))
    config = ViTConfig(**sizes, patch_size=14, num_labels=1000)
    config.architectures = ["ViTForImageClassification"]
    config.save_pretrained(folder)
    rows = 4 if tiny else 64
    save_file({"pixel_values": torch.randn(rows, 3, config.image_size, config.image_size).to(dtype),
               "labels": torch.randint(1000, (rows,))}, folder / "inputs.safetensors")


def write_vl(folder: pathlib.Path, tiny: bool, dtype) -> None:
    import torch
    from safetensors.torch import save_file
    from transformers import Qwen2_5_VLConfig
    text = dict(hidden_size=2048, num_hidden_layers=36, num_attention_heads=16, num_key_value_heads=2, intermediate_size=11008,
                vocab_size=151936, tie_word_embeddings=True, max_position_embeddings=128000, rms_norm_eps=1e-6,
                rope_theta=1000000.0, rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]})
    vision = dict(depth=32, hidden_size=1280, num_heads=16, intermediate_size=3420, out_hidden_size=2048, patch_size=14,
                  spatial_merge_size=2, temporal_patch_size=2, window_size=112, fullatt_block_indexes=[7, 15, 23, 31])
    rows, length, side = 8, 1024, 46
    if tiny:
        text.update(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=128,
                    vocab_size=1000, rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]})
        vision.update(depth=2, hidden_size=64, num_heads=4, intermediate_size=96, out_hidden_size=64, fullatt_block_indexes=[1])
        rows, length, side = 2, 64, 10
    ids = dict(image_token_id=text["vocab_size"] - 5, video_token_id=text["vocab_size"] - 6,
               vision_start_token_id=text["vocab_size"] - 7, vision_end_token_id=text["vocab_size"] - 8)
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True, **ids)
    config.architectures = ["Qwen2_5_VLForConditionalGeneration"]
    config.save_pretrained(folder)
    tokens = side * side // 4
    words = torch.randint(0, text["vocab_size"] - 10, (rows, length))
    words[:, 4] = ids["vision_start_token_id"]
    words[:, 5:5 + tokens] = ids["image_token_id"]
    words[:, 5 + tokens] = ids["vision_end_token_id"]
    labels = words.masked_fill(words == ids["image_token_id"], -100)
    save_file({"input_ids": words, "labels": labels, "pixel_values": torch.randn(rows * side * side, 3 * 2 * 14 * 14).to(dtype),
               "image_grid_thw": torch.tensor([[1, side, side]] * rows)}, folder / "inputs.safetensors")


def run(command: list) -> dict:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", choices=["vit", "vl"])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--attention", nargs="+", default=["sdpa"], help="of transformers: sdpa, eager")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--program", default=str(ROOT / "build/cuda/bench/vision_bench"))
    a = parser.parse_args()
    import torch
    for kind in a.kinds or ["vit", "vl"]:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            dict(vit=write_vit, vl=write_vl)[kind](folder, a.tiny, getattr(torch, DTYPES[a.dtype]))
            task, what = dict(vit=("image-classification", "backward"), vl=("image-text-to-text", "step"))[kind]
            sides = {"easydel": [a.program, folder / "config.json", task, folder / "inputs.safetensors", a.steps, a.dtype, a.device, what],
                     **{f"transformers, {attention}": [sys.executable, "-c", PEER, folder, kind, a.steps, DTYPES[a.dtype], a.device, attention]
                        for attention in a.attention}}
            best: dict = {}
            for _ in range(a.rounds):
                for side, command in sides.items():
                    found = run(command)
                    print(kind, side, json.dumps(found), flush=True)
                    if side not in best or found["seconds"] < best[side]["seconds"]:
                        best[side] = found
            own = best.pop("easydel")
            for side, theirs in best.items():
                memory = f", memory {own['peak_bytes'] / theirs['peak_bytes']:.2f}" if theirs["peak_bytes"] else ""
                print(f"{kind}: easydel {own['seconds'] * 1e3:.1f} ms; {side} {theirs['seconds'] * 1e3:.1f} ms: ratio"
                      f" {theirs['seconds'] / own['seconds']:.2f}{memory}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
