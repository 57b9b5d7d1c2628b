"""Runs examples/lora.cpp: the adapter learns, is small, and merges. usage: lora_test.py PROGRAM"""

import pathlib
import re
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as directory:
    done = subprocess.run([sys.argv[1], directory], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert {"adapter_config.json", "adapter_model.safetensors"} == {p.name for p in pathlib.Path(directory).iterdir()}
trained, total = map(int, re.search(r"^(\d+) of (\d+) parameters train$", done.stdout, re.M).groups())
assert 0 < trained < total, done.stdout
losses = [float(x) for x in re.findall(r"loss (\S+)$", done.stdout, re.M)]
assert len(losses) == 5 and losses[-1] < 0.9 * losses[0], done.stdout
assert int(re.search(r"state: (\d+) bytes", done.stdout).group(1)) == 2 * 4 * trained, done.stdout
assert float(re.search(r"differ by (\S+)", done.stdout).group(1)) < 1e-4, done.stdout
