"""Runs examples/optimizers.cpp: it finds the line. usage: optimizers_test.py PROGRAM"""

import re
import subprocess
import sys

done = subprocess.run([sys.argv[1]], capture_output=True, text=True, timeout=120)
assert done.returncode == 0, done.stderr
weight, bias = map(float, re.search(r"^weight (\S+), bias (\S+)$", done.stdout, re.M).groups())
assert abs(weight - 3) < 0.05 and abs(bias + 1) < 0.05, done.stdout
losses = [float(x) for x in re.findall(r"loss (\S+),", done.stdout)]
assert len(losses) == 4 and losses[-1] < 0.01 * losses[0], done.stdout
assert '"counts": {"count": 101}' in done.stdout, done.stdout
