"""Runs examples/quantization.cpp: smaller, and near. usage: quantization_test.py PROGRAM"""

import re
import subprocess
import sys

text = subprocess.run([sys.argv[1]], capture_output=True, text=True, check=True).stdout
before, after, off = re.fullmatch(r"(\d+) bytes are now (\d+)\nlogits are off by (\S+) of their size\n", text).groups()
assert int(after) < 0.65 * int(before), text
assert 0 < float(off) < 0.3, text
print(text)
