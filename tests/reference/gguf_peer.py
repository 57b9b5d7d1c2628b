"""A GGUF file from the gguf package, and what the package reads from it.

usage: gguf_peer.py DIRECTORY: writes peer.gguf, expected.json with the metadata, and expected.safetensors with every
tensor as float32. Of the K types, which the package cannot write, the blocks are random.
"""

import json
import pathlib
import sys

import gguf
import numpy as np
import safetensors.numpy
from gguf import GGMLQuantizationType as Type

SIMPLE = [Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0]
K = [Type.Q4_K, Type.Q5_K, Type.Q6_K]
METADATA = {"u8": (0, 255), "i8": (-128, 127), "u16": (0, 65535), "i16": (-32768, 32767), "u32": (0, 2**32 - 1),
            "i32": (-(2**31), 2**31 - 1), "u64": (0, 2**63 - 1), "i64": (-(2**63), 2**63 - 1)}
NAMES = {"u": "uint", "i": "int"}


def random_blocks(rng: np.random.Generator, kind: Type, shape: tuple[int, ...]) -> np.ndarray:
    """Every bit pattern but scales that are infinite or no number."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (*shape[:-1], shape[-1] // elements, size), dtype=np.uint8)
    scales = {Type.Q6_K: [208]}.get(kind, [0, 2])
    for at in scales:
        finite = rng.standard_normal(blocks.shape[:-1]).astype(np.float16)
        blocks[..., at:at + 2] = finite[..., None].view(np.uint8)
    return blocks.reshape(*shape[:-1], -1)


def add_metadata(writer: gguf.GGUFWriter) -> dict:
    expected = {"general.architecture": "llama"}

    def add(key, method, value, *more):
        getattr(writer, f"add_{method}")(key, value, *more)
        expected[key] = value

    for name, ends in METADATA.items():
        for which, value in zip(("least", "most"), ends):
            add(f"{name}.{which}", NAMES[name[0]] + name[1:], value)
    add("f32", "float32", 0.5)
    add("f64", "float64", 0.1)
    add("true", "bool", True)
    add("false", "bool", False)
    add("text", "string", "é\n\u2028")
    add("ints", "array", [1, -2, 3])
    add("floats", "array", [0.25, -1e10])
    add("bools", "array", [True, False])
    add("tokens", "array", [f"token {i}" for i in range(1000)])
    add("nested", "array", [[1, 2], [3]])
    for name, (least, most) in METADATA.items():
        sub_type = gguf.GGUFValueType[(NAMES[name[0]] + name[1:]).upper()]
        writer.add_key_value(f"{name}.array", [least, most], gguf.GGUFValueType.ARRAY, sub_type=sub_type)
        expected[f"{name}.array"] = [least, most]
    return expected


def main(directory: pathlib.Path) -> None:
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(directory / "peer.gguf", "llama")
    expected_metadata = add_metadata(writer)
    expected = {}
    for dtype in (np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64):
        values = (rng.standard_normal((2, 3, 5)) * 100).astype(dtype)
        writer.add_tensor(np.dtype(dtype).name, values)
        expected[np.dtype(dtype).name] = values.astype(np.float64)
    for kind in (Type.BF16, *SIMPLE):
        raw = gguf.quants.quantize(rng.standard_normal((3, 5, 256)).astype(np.float32), kind)
        writer.add_tensor(kind.name, raw, raw_dtype=kind)
        expected[kind.name] = gguf.quants.dequantize(raw, kind)
    for kind in (*SIMPLE, *K):
        raw = random_blocks(rng, kind, (7, 512))
        writer.add_tensor(f"random.{kind.name}", raw, raw_dtype=kind)
        expected[f"random.{kind.name}"] = gguf.quants.dequantize(raw, kind)
    unread = random_blocks(rng, Type.Q2_K, (2, 256))
    writer.add_tensor("unread", unread, raw_dtype=Type.Q2_K)
    writer.add_tensor("row", np.arange(4, dtype=np.float32))
    expected["row"] = np.arange(4, dtype=np.float64)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    gguf.GGUFReader(directory / "peer.gguf")  # the package reads it too
    (directory / "expected.json").write_text(json.dumps(expected_metadata))
    safetensors.numpy.save_file({k: np.ascontiguousarray(v) for k, v in expected.items()},
                                directory / "expected.safetensors")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
