"""Checkpoints as huggingface_hub splits and saves them, some with a tied tensor. usage: checkpoint_peer.py DIRECTORY SEED"""

import json
import random
import sys
from pathlib import Path

import torch
from huggingface_hub import save_torch_state_dict

COUNT = 16


def main(directory: Path, seed: int) -> None:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    for i in range(COUNT):
        state = {}
        for n in rng.sample(range(100), rng.randrange(1, 14)):
            dtype = rng.choice([torch.float32, torch.bfloat16, torch.int8])
            state[f"layer.{n}.weight"] = torch.randint(-9, 9, [rng.randrange(1, 30), 8]).to(dtype)
        ties = {}
        if i % 2 == 0:
            first = torch.randn(20, 8)
            state = {"model.embed": first, **state, "lm_head": first}
            ties = {"lm_head": "model.embed"}
        order = list(state)
        limits = [1, 100, 500, "0.6KB"]
        if not ties:  # one file would then hold two keys of metadata, which the package writes in a random order
            limits += [640, 1000, 2000, "1KB", "5GB"]
        limit = rng.choice(limits)
        save_directory = directory / str(i)
        save_directory.mkdir()
        save_torch_state_dict(state, save_directory, max_shard_size=limit, shared_tensors_to_discard=list(ties))
        (directory / f"{i}.json").write_text(json.dumps({"order": order, "ties": ties, "max_shard_size": limit if isinstance(limit, str) else f"{limit}B"}))
    print(COUNT)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
