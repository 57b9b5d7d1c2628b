"""Whole GRPO steps against transformers' generate with the same loss in torch, in one run.
usage: grpo_bench.py [--config FILE] [--prompts N] [--group N] [--prompt N] [--new N] [--minibatch N] [--dtype fp32|bf16]
                     [--device cpu|cuda] [--steps N] [--read-speed GB/S] [--easydel PROGRAM]

Each step draws a group of completions for every prompt at temperature 1, rewards those that contain 1234, and
takes one AdamW step on the clipped loss, without a reference, in minibatches of --minibatch rows. No completion ends
early. Weights are random. Without arguments: 64 prompts of 128 tokens, 8 completions of 512 tokens each, of
configs/qwen2.5-0.5b.json. Prints seconds of a step and of its rollouts, peak memory, ratios, how far the log-probabilities of
sampling are from those of training (for transformers: of generate from forward, over 16 prompts and 64 tokens), and
which share of the memory's speed the rollouts reach: the bytes of the weights and of the keys and values that their steps
must read, divided by their time."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

PEER = """
import sys, time, json, torch
from transformers import AutoConfig, AutoModelForCausalLM
path, prompts, group, length, new, minibatch, steps = sys.argv[1], *map(int, sys.argv[2:8])
dtype, device = dict(fp32=torch.float32, bf16=torch.bfloat16)[sys.argv[8]], sys.argv[9]
config = AutoConfig.from_pretrained(path)
with torch.device(device):
    torch.set_default_dtype(dtype)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    torch.set_default_dtype(torch.float32)
model.generation_config.eos_token_id = None
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)

def step(prompts, new):
    wait()
    begin = time.perf_counter()
    ids = torch.randint(config.vocab_size, (prompts, length), device=device).repeat_interleave(group, 0)
    model.eval()
    with torch.no_grad():
        all_ids = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new, do_sample=True,
                                 temperature=1.0, top_k=0, top_p=1.0, pad_token_id=0)
    wait()
    drawn = time.perf_counter()
    rewards = (all_ids[:, length:] % 10).float().mean(1).view(prompts, group)
    advantages = ((rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)).flatten()
    model.train()
    rows = all_ids.shape[0]
    for first in range(0, rows, minibatch):
        part, adv = all_ids[first:first + minibatch], advantages[first:first + minibatch]
        logits = model(input_ids=part, use_cache=False, logits_to_keep=new + 1).logits[:, :-1]
        logps = torch.log_softmax(logits.float(), -1).gather(-1, part[:, length:].unsqueeze(-1)).squeeze(-1)
        ratio = torch.exp(logps - logps.detach())
        clipped = torch.clamp(ratio, 0.8, 1.2)
        loss = -torch.min(ratio * adv.unsqueeze(1), clipped * adv.unsqueeze(1)).sum() / (rows * new)
        loss.backward()
        del logits, logps, ratio, clipped, loss
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    wait()
    return time.perf_counter() - begin, drawn - begin

step(max(1, min(prompts, minibatch // group)), min(new, 4))
best = min(step(prompts, new) for _ in range(steps))
peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0

# How far the log-probabilities of its own generate are from those of its forward.
model.eval()
ids = torch.randint(config.vocab_size, (min(prompts, 16), length), device=device)
count = min(new, 64)
with torch.no_grad():
    drawn = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count, do_sample=True,
                           temperature=1.0, top_k=0, top_p=1.0, pad_token_id=0, return_dict_in_generate=True, output_logits=True)
    sampled = torch.stack(drawn.logits, 1).float().log_softmax(-1)
    scored = model(input_ids=drawn.sequences, use_cache=False, logits_to_keep=count + 1).logits[:, :-1].float().log_softmax(-1)
    of_tokens = lambda logps: logps.gather(-1, drawn.sequences[:, length:].unsqueeze(-1))
    difference = (of_tokens(sampled) - of_tokens(scored)).abs().mean().item()
print(json.dumps(dict(seconds=best[0], rollout_seconds=best[1], peak_bytes=peak, logp_difference=difference)))
"""


def run(command: list) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout[-2000:] + done.stderr[-3000:])
    return done.stdout


def write_inputs(folder: pathlib.Path, a) -> None:
    """Prompts of so many random words, and a tokenizer whose words are the numbers of their ids."""
    import random
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    config = json.loads(pathlib.Path(a.config).read_text())
    vocab = config["vocab_size"]
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer(models.WordLevel({f"Ġ{i}": i for i in range(vocab)}, unk_token="Ġ0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    draw = random.Random(0)
    with open(folder / "prompts.jsonl", "w") as out:
        for _ in range(a.prompts * (a.steps + 1)):
            out.write(json.dumps({"prompt": " ".join(str(draw.randrange(vocab)) for _ in range(a.prompt))}) + "\n")


def ours(folder: pathlib.Path, a) -> list[dict]:
    """The log of each step, of which the first one warms up."""
    settings = {"num_return_sequences": a.group, "max_prompt_length": a.prompt, "max_completion_length": a.new, "beta": 0,
                "clip_grad": 1.0, "log_steps": 1, "shuffle_train_dataset": "false"}
    command = [a.easydel, "train", folder / "config.json", "--tokenizer", folder, "--data", folder / "prompts.jsonl", "--trainer",
               "grpo", "--reward", "regex=1234", "--steps", a.steps + 1, "--batch", a.prompts, "--accumulate",
               a.prompts * a.group // a.minibatch, "--length", a.prompt + a.new, "--learning-rate", "1e-6", "--dtype", a.dtype,
               "--param-dtype", a.dtype, "--device", a.device, "--output", folder / "run", "--save-steps", "0", *(a.more or []),
               *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))]
    metrics = folder / "run" / "metrics.jsonl"
    with open(folder / "log", "w") as log:
        process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)
    while process.poll() is None:  # until the last step is logged: saving the model is not measured
        lines = metrics.read_text().splitlines() if metrics.exists() else []
        if len(lines) > a.steps and lines[-1].endswith("}"):
            process.kill()
            process.wait()
            return [json.loads(line) for line in lines]
        time.sleep(0.1)
    if process.returncode != 0:
        sys.exit((folder / "log").read_text()[-3000:])
    return [json.loads(line) for line in metrics.read_text().splitlines()]


def read_bytes(a) -> float:
    """What the decode steps of a rollout read at least: the weights each time, and each row's keys and values."""
    c = json.loads(pathlib.Path(a.config).read_text())
    width = 2 if a.dtype == "bf16" else 4
    head = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    layer = c["hidden_size"] * head * (2 * c["num_attention_heads"] + 2 * c["num_key_value_heads"])
    layer += 3 * c["hidden_size"] * c["intermediate_size"]
    weights = c["num_hidden_layers"] * layer + c["vocab_size"] * c["hidden_size"]
    token = c["num_hidden_layers"] * 2 * c["num_key_value_heads"] * head
    seen = sum(a.prompt + i for i in range(a.new))
    return width * (a.new * weights + a.prompts * a.group * seen * token)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default=str(ROOT / "bench/configs/qwen2.5-0.5b.json"))
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--new", type=int, default=512)
    parser.add_argument("--minibatch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--read-speed", type=float, default=4300, help="of the memory, in GB/s")
    parser.add_argument("--more", nargs="*", help="further words for easydel train")
    parser.add_argument("--easydel", default=str(ROOT / "build/cuda/bin/easydel"))
    a = parser.parse_args()
    print(f"{pathlib.Path(a.config).stem}: {a.prompts} prompts of {a.prompt} tokens, {a.group} completions of {a.new}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_inputs(folder, a)
        log = ours(folder, a)
        for step in log:
            print("easydel", json.dumps(step), flush=True)
    for before, step in zip(log, log[1:]):
        step["seconds"] = step["time"] - before["time"]
    own = min(log[1:], key=lambda step: step["seconds"])
    share = read_bytes(a) / own["rollout_seconds"] / (a.read_speed * 1e9)
    print(f"rollouts at {share:.2f} of the memory's speed", flush=True)
    text = run([sys.executable, "-c", PEER, a.config, a.prompts, a.group, a.prompt, a.new, a.minibatch, a.steps, a.dtype, a.device])
    print("transformers", text.splitlines()[-1], flush=True)
    theirs = json.loads(text.splitlines()[-1])
    print(f"a step: easydel {own['seconds']:.2f} s, of which rollouts {own['rollout_seconds']:.2f}; transformers"
          f" {theirs['seconds']:.2f} s, of which generate {theirs['rollout_seconds']:.2f}: ratio {theirs['seconds'] / own['seconds']:.2f}")
    if theirs["peak_bytes"]:
        print(f"peak memory: {own['peak_memory_bytes'] / 2**30:.1f} and {theirs['peak_bytes'] / 2**30:.1f} GiB: ratio"
              f" {own['peak_memory_bytes'] / theirs['peak_bytes']:.2f}")
    print(f"sampling_logp_difference: easydel {own['sampling_logp_difference']:.2e}, transformers' generate and forward"
          f" {theirs['logp_difference']:.2e}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
