"""Runs examples/checkpoints.cpp. usage: checkpoints_test.py PROGRAM"""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

with tempfile.TemporaryDirectory() as name:
    directory = Path(name)
    state = {"w": torch.randn(4, 6), "b": torch.randn(3).bfloat16()}
    save_file(state, directory / "model.safetensors")
    done = subprocess.run([sys.argv[1], directory, directory / "half"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "w F32 [4, 6]\nb BF16 [3]\nthe same memory: true\n", done.stdout
    half = load_file(directory / "half" / "model.safetensors")
    assert all(torch.equal(half[key], state[key] / 2) for key in state)
    done = subprocess.run([sys.argv[1], directory / "none", directory / "half"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (1, f"checkpoints: [{directory}/none] does not exist.\n"), done
