"""Runs examples/serving.cpp. usage: serving_test.py PROGRAM"""

import subprocess
import sys

done = subprocess.run([sys.argv[1]], capture_output=True, text=True, timeout=120)
assert done.returncode == 0, done.stderr
lines = done.stdout.splitlines()
assert len(lines) == 7 and all(line.endswith("(length)") and len(line.split()) == 13 for line in lines[:4]), done.stdout
assert lines[4] == "alone the same: yes", done.stdout
assert lines[5] == "tokens found in the cache: 32", done.stdout
assert lines[6] == "the long one ended: cancelled", done.stdout
