"""The safetensors package as a peer of ours. usage: safetensors_peer.py write|check|judge DIRECTORY SEED|FILE"""

import random
import struct
import sys
from pathlib import Path

import safetensors
import torch
from safetensors import safe_open
from safetensors.torch import save, save_file

DTYPES = {
    "bool": "BOOL", "float4_e2m1fn_x2": "F4", "uint8": "U8", "int8": "I8", "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3", "float8_e8m0fnu": "F8_E8M0", "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "int16": "I16", "uint16": "U16", "float16": "F16", "bfloat16": "BF16",
    "int32": "I32", "uint32": "U32", "float32": "F32", "complex64": "C64", "float64": "F64", "int64": "I64",
    "uint64": "U64",
}  # fmt: skip
ALPHABET = list("abcdefghijklmnopqrstuvwxyz.._-0123456789") + list('"\\/\b\f\n\r\t\x00\x1f\x7f é日本😀\u2028')
COUNT = 40  # files


def random_name(rng: random.Random) -> str:
    return "".join(rng.choice(ALPHABET) for _ in range(rng.randrange(12)))


def random_tensor(rng: random.Random, dtype: str) -> torch.Tensor:
    least = 1 if dtype == "float4_e2m1fn_x2" else 0  # packed values have no scalar
    shape = [rng.choice([0, 1, 2, 3, 7]) for _ in range(rng.randrange(least, 5))]
    torch_dtype = getattr(torch, dtype)
    if dtype == "bool":
        return torch.randint(0, 2, shape).to(torch.bool)
    raw = torch.randint(0, 256, [*shape, torch.empty(0, dtype=torch_dtype).element_size()], dtype=torch.uint8)
    return raw.view(torch_dtype).squeeze(-1) if raw.numel() else torch.empty(shape, dtype=torch_dtype)


def write(directory: Path, seed: int) -> None:
    """Files of random tensors, as the package writes them."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    for i in range(COUNT):
        names = {random_name(rng) for _ in range(rng.randrange(12))} - {"__metadata__"}
        tensors = {name: random_tensor(rng, rng.choice(list(DTYPES))) for name in names}
        if i == 0:
            tensors |= {f"every.{dtype}": random_tensor(rng, dtype) for dtype in DTYPES}
        # The package writes several keys in a random order, and an empty dictionary as broken JSON.
        metadata = rng.choice([None, {"format": "pt"}, {random_name(rng): random_name(rng)}])
        save_file(tensors, directory / f"{i}.safetensors", metadata=metadata)


def check(directory: Path) -> None:
    """Files of ours: named <anything>.<torch dtype>, filled with the bytes 0, 1, 2 …, and the same when saved again."""
    for path in sorted(directory.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            metadata = file.metadata()
        for name, tensor in tensors.items():
            assert str(tensor.dtype) == f"torch.{name.rsplit('.', 1)[1]}", (path, name, tensor.dtype)
            if tensor.dtype == torch.bool:
                found, period = tensor.flatten().to(torch.uint8), 2
            elif tensor.numel() == 0:
                continue
            else:
                found, period = tensor.flatten().view(torch.uint8), 256
            assert torch.equal(found, (torch.arange(found.numel()) % period).to(torch.uint8)), (path, name)
        assert save(tensors, metadata=metadata) == path.read_bytes(), path
    print(len(list(directory.glob("*.safetensors"))))


def judge(file: Path) -> None:
    """One character for each file in an archive of (8 bytes of length, content): + when the package takes it."""
    data = file.read_bytes()
    verdicts = []
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        try:
            safetensors.deserialize(data[at + 8 : at + 8 + size])
            verdicts.append("+")
        except safetensors.SafetensorError:
            verdicts.append("-")
        at += 8 + size
    print("".join(verdicts))


if __name__ == "__main__":
    command, directory, *rest = sys.argv[1:]
    {"write": lambda: write(Path(directory), int(rest[0])), "check": lambda: check(Path(directory)), "judge": lambda: judge(Path(directory))}[command]()
