"""Runs examples/sharding.cpp: three meshes, one loss. usage: sharding_test.py PROGRAM"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as name:
    directory = Path(name) / "model"
    done = subprocess.run([sys.argv[1], directory], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    losses = [float(x) for x in re.findall(r"^(?:loss on|loaded on) .* (\d\S*)$", done.stdout, re.M)]
    assert len(losses) == 3 and max(losses) - min(losses) < 1e-4, done.stdout
    assert "rank 0 keeps [16, 8] of q_proj, its gradient is [16, 8]" in done.stdout, done.stdout
    assert "mesh    dp=1 fsdp=2 ep=1 tp=2 sp=2" in done.stdout, done.stdout
    assert json.loads((directory / "config.json").read_text())["model_type"] == "llama"
    assert (directory / "model.safetensors").exists()

    (Path(name) / "file").write_text("in the way")
    done = subprocess.run([sys.argv[1], Path(name) / "file/model"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and re.match(r"sharding: rank 0: \[.*/file/model\] cannot be created", done.stderr), done
