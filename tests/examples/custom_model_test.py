"""Runs examples/custom_model. usage: custom_model_test.py PROGRAM"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from safetensors.torch import load_file

with tempfile.TemporaryDirectory() as name:
    directory = Path(name) / "nope"
    done = subprocess.run([sys.argv[1], directory], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.startswith("NopeForCausalLM(\n  (model): NopeModel(\n    (embeddings): Embedding(64, 32)\n"), done.stdout
    losses = [float(loss) for loss in re.findall(r"^step \d: loss (\S+)$", done.stdout, re.M)]
    assert len(losses) == 5 and losses == sorted(losses, reverse=True) and losses[-1] < 0.97 * losses[0], losses
    assert done.stdout.endswith("NopeForCausalLM from files: the same logits\n"), done.stdout

    config = json.loads((directory / "config.json").read_text())
    assert (config["model_type"], config["architectures"]) == ("nope", ["NopeForCausalLM"]), config
    weights = load_file(directory / "model.safetensors")
    assert weights["model.layers.1.attention.q_proj.weight"].shape == (32, 32), weights.keys()
    assert len(weights) == 1 + 2 * 8 + 2, weights.keys()
