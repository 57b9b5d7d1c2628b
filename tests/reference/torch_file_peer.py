"""Files that torch.save writes, and what torch reads from them.

usage: torch_file_peer.py DIRECTORY: writes protocol-{2..5}.bin, deflated.bin and unaligned.bin, all with the same
tensors, and expected.safetensors with the bytes of each in order, beside expected.json with their dtypes, shapes and
strides.
"""

import collections
import json
import pathlib
import sys
import zipfile

import safetensors.torch
import torch

NARROW = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
          torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64, torch.complex128, *NARROW]


def make_tensors() -> collections.OrderedDict:
    torch.manual_seed(0)
    tensors = collections.OrderedDict()
    for dtype in DTYPES:
        raw = torch.randint(0, 2 if dtype == torch.bool else 256, (6 * dtype.itemsize,), dtype=torch.uint8)
        tensors[str(dtype)] = raw.view(dtype).reshape(2, 3)
    base = torch.randn(4, 5, 6)
    tensors["base"] = base
    tensors["transposed"] = base.transpose(0, 2)
    tensors["part"] = base[1:3, 1, ::2]
    tensors["offset"] = base.flatten()[17:]
    tensors["alias"] = base
    tensors["expanded"] = torch.randn(3, 1).expand(3, 4)
    tensors["diagonal"] = torch.randn(5, 5).diagonal()
    tensors["scalar"] = torch.tensor(1.5)
    tensors["empty"] = torch.empty(0, 3)
    tensors["parameter"] = torch.nn.Parameter(torch.randn(2, 2))
    attributed = torch.nn.Parameter(torch.randn(2))
    attributed.tensor_model_parallel = True
    tensors["parameter with attributes"] = attributed
    tensors["buffer"] = torch.nn.Buffer(torch.randn(3))
    tensors["é\n"] = torch.randn(1)
    return tensors


def rewrite(source: pathlib.Path, target: pathlib.Path, compression: int) -> None:
    """The same archive as another program would write it: compressed, or without torch's alignment."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", compression) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry), compression)


def main(directory: pathlib.Path) -> None:
    tensors = make_tensors()
    for protocol in range(2, 6):
        torch.save(tensors, directory / f"protocol-{protocol}.bin", pickle_protocol=protocol)
    rewrite(directory / "protocol-2.bin", directory / "deflated.bin", zipfile.ZIP_DEFLATED)
    rewrite(directory / "protocol-2.bin", directory / "unaligned.bin", zipfile.ZIP_STORED)
    loaded = torch.load(directory / "protocol-2.bin", weights_only=True)
    expected = {name: {"dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape), "stride": list(t.stride())}
                for name, t in loaded.items()}
    (directory / "expected.json").write_text(json.dumps(expected))
    raw = {name: t.detach().contiguous().reshape(-1).view(torch.uint8).clone() for name, t in loaded.items()}
    safetensors.torch.save_file(raw, directory / "expected.safetensors")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
