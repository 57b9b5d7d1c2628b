"""Runs examples/quickstart.cpp on a model that transformers made, and loads what it saved. usage: quickstart_test.py PROGRAM"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import LlamaConfig, LlamaForCausalLM

with tempfile.TemporaryDirectory() as name:
    directory = Path(name)
    config = LlamaConfig(vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2)
    model = LlamaForCausalLM(config)
    model.save_pretrained(directory / "model")
    done = subprocess.run([sys.argv[1], directory / "model", directory / "out"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "model.layers.0.self_attn.q_proj.weight [16, 16] gradient " in done.stdout, done.stdout
    assert 2 < float(re.search(r"^loss (\S+)$", done.stdout, re.M).group(1)) < 6, done.stdout
    saved = LlamaForCausalLM.from_pretrained(directory / "out")
    assert saved.dtype == torch.bfloat16
    for (path, ours), theirs in zip(saved.named_parameters(), model.parameters()):
        assert torch.equal(ours, theirs.bfloat16()), path
    done = subprocess.run([sys.argv[1], directory / "none", directory / "out"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and str(directory / "none") in done.stderr, done
