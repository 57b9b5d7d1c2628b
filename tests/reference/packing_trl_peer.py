"""Documents packed by trl. usage: packing_trl_peer.py FILE SEED COUNT

Writes lines of {"strategy", "max_length", "documents" (that a call of trl packs together), "lengths", "rows"}: token j of
document i is 1000 i + j, and rows are what trl.pack_dataset makes of them.
"""

import json
import os
import random
import sys

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import datasets
from trl import pack_dataset

datasets.disable_progress_bars()


def main(path: str, seed: int, count: int) -> None:
    generator = random.Random(seed)
    with open(path, "w") as file:
        for number in range(count):
            strategy = ("bfd", "bfd_split", "wrapped")[number % 3]
            max_length = generator.choice([1, 2, 7, 16, 33, 64])
            together = generator.choice([1, 5, 40, 1000])
            longest = generator.choice([3, max_length, 3 * max_length])
            lengths = [generator.randint(1, longest) for _ in range(generator.randint(1, 120))]
            rows = datasets.Dataset.from_dict({"input_ids": [[1000 * i + j for j in range(n)] for i, n in enumerate(lengths)]})
            packed = pack_dataset(rows, max_length, strategy, {"batch_size": together})
            file.write(json.dumps({"strategy": strategy, "max_length": max_length, "documents": together,
                                   "lengths": lengths, "rows": packed["input_ids"][:]}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
