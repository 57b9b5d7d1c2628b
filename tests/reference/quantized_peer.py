"""Packed weights of bitsandbytes and gguf with the values that they stand for, as one safetensors file.
usage: quantized_peer.py OUT"""

import sys

import gguf
import numpy
import torch
from bitsandbytes import functional
from gguf.quants import dequantize, quantize
from safetensors.torch import save_file


def nf4(weight: torch.Tensor, block: int, nested: bool) -> dict[str, torch.Tensor]:
    codes, state = functional.quantize_4bit(weight, blocksize=block, quant_type="nf4", compress_statistics=nested)
    out = {"codes": codes.view(weight.shape[0], -1), "scales": state.absmax.view(weight.shape[0], -1)}
    absmax = state.absmax
    if nested:
        out |= {"map": state.state2.code, "outer": state.state2.absmax, "offset": state.offset.view(1)}
        absmax = functional.dequantize_blockwise(state.absmax, state.state2) + state.offset
        assert state.state2.blocksize == 256
    # bitsandbytes' dequantize_4bit is wrong on some CPUs; its table and its scales are not.
    pairs = torch.stack([codes.flatten() >> 4, codes.flatten() & 15], 1).flatten().long()
    out["values"] = (state.code[pairs].view(-1, block) * absmax.float().view(-1, 1)).view(weight.shape)
    return out


def int8(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    codes, scales, _ = functional.int8_vectorwise_quant(weight)
    return {"codes": codes, "scales": scales, "values": functional.int8_vectorwise_dequant(codes, scales)}


def q4_0(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    blocks = quantize(weight.numpy(), gguf.GGMLQuantizationType.Q4_0)
    values = dequantize(blocks, gguf.GGMLQuantizationType.Q4_0)
    parts = blocks.reshape(weight.shape[0], -1, 18)
    return {"codes": torch.from_numpy(parts[:, :, 2:].reshape(weight.shape[0], -1).copy()),
            "scales": torch.from_numpy(parts[:, :, :2].copy().view(numpy.float16)[:, :, 0].copy()),
            "values": torch.from_numpy(values)}


def main() -> None:
    torch.manual_seed(0)
    weight = torch.randn(70, 576) * torch.logspace(-3, 2, 70)[:, None]
    weight[3] = 0
    weight[4, 64:128] = 0
    tensors = {"weight": weight}
    kinds = {"nf4": nf4(weight, 64, False), "nf4_nested": nf4(weight, 64, True), "int8": int8(weight), "int4": q4_0(weight)}
    for kind, parts in kinds.items():
        tensors |= {f"{kind}.{name}": part.contiguous() for name, part in parts.items()}
    save_file(tensors, sys.argv[1])


main()
