"""Runs examples/training.cpp on a tiny model. usage: training_test.py PROGRAM"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

with tempfile.TemporaryDirectory() as directory:
    root = pathlib.Path(directory)
    words = ["<end>", "a", "book", "is", "long", "the", "cat", "sat", "on", "mat"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<end>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<end>"])
    LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                                 num_key_value_heads=1, max_position_embeddings=64)).save_pretrained(root / "model")
    tokenizer.save(str(root / "model/tokenizer.json"))
    (root / "model/tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>", "pad_token": "<end>"}))
    (root / "data.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in
                                             ["the cat sat on the mat", "a book is long", "the book sat"] * 3))
    done = subprocess.run([sys.argv[1], root / "model", root / "data.jsonl", root / "out"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    losses = [float(x) for x in re.findall(r"loss ([\d.]+)", done.stdout)]
    assert len(losses) == 3 and losses[2] < losses[0], done.stdout
    assert "trained 4 steps: run-4" in done.stdout, done.stdout
    for name in ("by-hand/state.json", "run/run-4/model.safetensors", "run/metrics.jsonl", "run/report.html"):
        assert (root / "out" / name).exists(), name
    # What was saved is a checkpoint for transformers too.
    LlamaForCausalLM.from_pretrained(root / "out/run/run-4")
