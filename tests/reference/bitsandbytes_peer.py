"""Matrices as bitsandbytes quantizes them on the CPU. usage: bitsandbytes_peer.py OUT SEED

Writes safetensors: <case>.matrix, and what the method makes of it under <case>.<part>."""

import json
import sys

import bitsandbytes.functional as F
import torch
from safetensors.torch import save_file

torch.set_num_threads(1)
output, seed = sys.argv[1], int(sys.argv[2])
torch.manual_seed(seed)


def draw(rows: int, columns: int, kind: str, dtype: torch.dtype) -> torch.Tensor:
    matrix = torch.randn(rows, columns) * 10.0 ** torch.randint(-6, 3, (1,)).item()
    if kind == "tails":
        matrix = matrix**3
    elif kind == "even":  # many values that lie just between two codes
        matrix = torch.randint(-8, 9, (rows, columns)).float() / 8
    elif kind == "zeros":
        matrix[::3] = 0
        matrix[:, :64] = 0
    return matrix.to(dtype)


tensors = {}
case = 0
for kind in ("normal", "tails", "even", "zeros"):
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for group in (32, 64, 128):
            rows, columns = torch.randint(1, 60, (2,)).tolist()
            matrix = draw(rows, 128 * (columns % 5 + 1), kind, dtype).clamp(-6e4, 6e4)
            for nested in (False, True):
                codes, state = F.quantize_4bit(
                    matrix.clone(), blocksize=group, quant_type="nf4", compress_statistics=nested
                )
                name = f"nf4.{case}.{group}.{int(nested)}"
                case += 1
                tensors |= {f"{name}.matrix": matrix.clone(), f"{name}.weight": codes}
                for key, value in state.as_dict(packed=True).items():
                    if key.startswith("quant_state"):
                        offset = json.loads(bytes(value.numpy()))["nested_offset"] if nested else 0.0
                        tensors[f"{name}.offset"] = torch.tensor([offset])
                    else:
                        tensors[f"{name}.{key}"] = value.clone()
                tensors[f"{name}.dense"] = F.dequantize_4bit(codes, state).float().reshape(matrix.shape)
        matrix = draw(17, 96, kind, dtype)
        if kind == "zeros":
            matrix[:, 64:] = 1  # a row of zeros alone is 0 * inf there
        codes, scales, _ = F.int8_vectorwise_quant(matrix.clone())
        name = f"8bit.{case}"
        case += 1
        tensors |= {f"{name}.matrix": matrix, f"{name}.weight": codes, f"{name}.SCB": scales}
save_file(tensors, output)
