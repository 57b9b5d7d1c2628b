"""Runs examples/generation.cpp. usage: generation_test.py PROGRAM"""

import subprocess
import sys

done = subprocess.run([sys.argv[1]], capture_output=True, text=True, timeout=120)
assert done.returncode == 0, done.stderr
lines = done.stdout.split("\n")
assert lines[0].startswith("the cat sat") and len(lines[0]) > len("the cat sat"), done.stdout
assert "two draws with one key are equal" in done.stdout, done.stdout
assert "by hand: the same tokens, " in done.stdout, done.stdout
