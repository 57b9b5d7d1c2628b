"""Adds up what ncu prints: `ncu --csv --metrics gpu__time_duration.sum PROGRAM … | kernel_times.py [ROWS]`."""

import collections
import csv
import sys

rows = int(sys.argv[1]) if len(sys.argv) > 1 else 25
total, count = collections.Counter(), collections.Counter()
lines = [line for line in sys.stdin if line.startswith('"')]
for row in csv.DictReader(lines):
    value = float(row["Metric Value"].replace(",", ""))
    value *= {"ns": 1e-6, "nsecond": 1e-6, "us": 1e-3, "usecond": 1e-3, "ms": 1.0}.get(row["Metric Unit"], 1e-6)
    total[row["Kernel Name"][:110]] += value
    count[row["Kernel Name"][:110]] += 1
print(f"{sum(total.values()):.2f} ms in {sum(count.values())} kernels")
for name, time in total.most_common(rows):
    print(f"{time:9.2f} ms {count[name]:6d}  {name}")
