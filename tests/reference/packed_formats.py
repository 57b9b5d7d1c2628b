"""Weights in the layouts of published files, with the values that they stand for. Each function takes a layer's weight
[out, in] and gives its tensors by suffix, and the dense weight; none of them shares code with what it tests."""

import numpy as np
import torch


def stream(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Rows of codes as 32-bit words, the lowest bits first and across words."""
    flat = np.unpackbits(codes.numpy().astype(np.uint8)[..., None], axis=-1, bitorder="little")[..., :bits]
    return torch.from_numpy(np.packbits(flat.reshape(codes.shape[0], -1), axis=1, bitorder="little").view(np.int32).copy())


def groups_of(weight: torch.Tensor, bits: int, group: int, symmetric: bool, dtype=torch.float16):
    """Codes [out, in], scales and zero points [out, groups]."""
    parts = weight.view(weight.shape[0], -1, group)
    top = 2**bits - 1
    if symmetric:
        scale = (parts.abs().amax(-1) / (top // 2)).clamp_min(1e-4).to(dtype)
        zero = torch.full(scale.shape, float((top + 1) // 2))
    else:
        low, high = parts.amin(-1).clamp_max(0), parts.amax(-1).clamp_min(0)
        scale = ((high - low) / top).clamp_min(1e-4).to(dtype)
        zero = (-low / scale.float()).round().clamp(1, top)
    codes = (parts / scale.float()[..., None] + zero[..., None]).round().clamp(0, top)
    values = (codes - zero[..., None]) * scale.float()[..., None]
    return codes.flatten(1).to(torch.uint8), scale, zero, values.flatten(1)


def gptq(weight, bits=4, group=32, symmetric=True, desc_act=False, version=1):
    rows, columns = weight.shape
    group = columns if group == -1 else group
    order = torch.randperm(columns, generator=torch.Generator().manual_seed(columns)) if desc_act else torch.arange(columns)
    codes, scale, zero, values = groups_of(weight[:, order], bits, group, symmetric)
    back = torch.argsort(order)
    stored = zero - (1 if version == 1 else 0)
    tensors = {
        "qweight": stream(codes[:, back].contiguous(), bits).T.contiguous(),
        "qzeros": stream(stored.T.contiguous(), bits),
        "scales": scale.T.contiguous(),
        "g_idx": (back // group).to(torch.int32),
    }
    return tensors, values[:, back]


def awq(weight, group=32):
    codes, scale, zero, values = groups_of(weight, 4, group, symmetric=False)

    def pack(numbers):
        words = torch.zeros(numbers.shape[0], numbers.shape[1] // 8, dtype=torch.int64)
        for place, column in enumerate([0, 2, 4, 6, 1, 3, 5, 7]):
            words |= numbers[:, column::8].long() << (4 * place)
        return torch.from_numpy(words.numpy().astype(np.uint32).view(np.int32))

    return {"qweight": pack(codes.T), "qzeros": pack(zero.T), "scales": scale.T.contiguous()}, values


def fp8(weight, block=(128, 128), suffix="weight_scale_inv", dtype=torch.float8_e4m3fn):
    """Blocks; (1, in) is a scale for each row and (out, in) one for all."""
    rows, columns = weight.shape
    high, wide = block[0], min(block[1], columns)
    scale = torch.zeros(-(-rows // high), -(-columns // wide))
    codes, values = torch.zeros_like(weight, dtype=dtype), torch.zeros_like(weight)
    for i in range(scale.shape[0]):
        for j in range(scale.shape[1]):
            box = (slice(i * high, (i + 1) * high), slice(j * wide, (j + 1) * wide))
            scale[i, j] = weight[box].abs().amax() / torch.finfo(dtype).max
            codes[box] = (weight[box] / scale[i, j]).to(dtype)
            values[box] = codes[box].float() * scale[i, j]
    if block == (rows, columns):
        scale = scale.view(())
    return {"weight": codes, suffix: scale}, values


FP4 = torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def mxfp4(stack):
    """Experts [E, in, out] as gpt-oss stores them, the other way round."""
    blocks = stack.transpose(1, 2).reshape(stack.shape[0], stack.shape[2], -1, 32)
    exponents = (torch.floor(torch.log2(blocks.abs().amax(-1))) - 2).clamp(-127, 127)
    scaled = blocks / torch.exp2(exponents)[..., None]
    codes = (scaled[..., None] - FP4).abs().argmin(-1)
    values = (FP4[codes] * torch.exp2(exponents)[..., None]).flatten(-2).transpose(1, 2)
    pairs = codes.view(*codes.shape[:-1], 16, 2)
    return {"_blocks": (pairs[..., 0] | pairs[..., 1] << 4).to(torch.uint8), "_scales": (exponents + 127).to(torch.uint8)}, values


def compressed(weight, layout, dtype=torch.bfloat16, **settings):
    """By the package itself."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams

    arguments = QuantizationArgs(**settings)
    strategy, kind = settings["strategy"], settings["type"]
    rows, columns = weight.shape
    parts = {"tensor": weight.view(1, -1), "channel": weight}.get(strategy)
    if parts is None:
        parts = weight.view(rows, -1, arguments.group_size)
    if strategy == "block":
        parts = weight.view(rows, -1)
    extra = {}
    if layout == "nvfp4-pack-quantized":
        extra["weight_global_scale"] = (torch.finfo(torch.float8_e4m3fn).max * 6 / weight.abs().amax()).view(1)
        scale = (extra["weight_global_scale"] * parts.abs().amax(-1) / 6).to(torch.float8_e4m3fn).float()
        zero = None
    elif layout == "mxfp4-pack-quantized":
        scale, zero = torch.exp2(torch.floor(torch.log2(parts.abs().amax(-1))) - 2), None
    else:
        scale, zero = calculate_qparams(parts.amin(-1), parts.amax(-1), arguments)
        scale = scale.to(dtype)
        if strategy == "channel":
            scale, zero = scale.view(rows, 1), zero.view(rows, 1)
    state = {"weight": weight, "weight_scale": scale} | extra
    if zero is not None:
        state["weight_zero_point"] = zero.to(torch.int8) if kind == "int" else zero
    scheme = QuantizationScheme(targets=["Linear"], weights=arguments)
    compressor = BaseCompressor.get_value_from_registry(layout)
    packed = compressor.compress(dict(state), scheme)
    # In float32: it would multiply in the type of the scales.
    exact = {k: v.float() if v.dtype == torch.bfloat16 else v for k, v in packed.items()}
    if layout == "nvfp4-pack-quantized":  # which it computes in bfloat16
        codes = torch.stack([packed["weight_packed"] & 15, packed["weight_packed"] >> 4], -1).flatten(1).long()
        scales = packed["weight_scale"].float() / packed["weight_global_scale"]
        values = FP4[codes] * scales.repeat_interleave(16, 1)
    else:
        values = compressor.decompress(exact, scheme)["weight"].float()
    return {name: tensor.contiguous() for name, tensor in packed.items()}, values


def hqq(weight, bits=4, group=32, axis=1):
    """By the package itself."""
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear

    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    linear.weight.data = weight.clone()
    settings = BaseQuantizeConfig(nbits=bits, group_size=group, axis=axis)
    layer = HQQLinear(linear, settings, compute_dtype=torch.float32, device="cpu")
    return {k: v.detach().clone() for k, v in layer.state_dict().items()}, layer.dequantize().float()


def torchao(weight, kind):
    """By the package itself: int8, or FP8 with a scale for each row, each block or the whole."""
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import Int8WeightOnlyConfig, PerRow, PerTensor, quantize_
    from torchao.quantization.granularity import PerBlock
    from torchao.quantization.quantize_.workflows import Float8Tensor

    if kind == "int8":
        module = torch.nn.Sequential(torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False))
        module[0].weight.data = weight.clone()
        quantize_(module, Int8WeightOnlyConfig(version=2))
        packed = module[0].weight.detach()
    else:
        granularity = {"rows": PerRow(), "blocks": PerBlock([64, 32]), "tensor": PerTensor()}[kind]
        packed = Float8Tensor.from_hp(weight.clone(), granularity=granularity)
    tensors, _ = flatten_tensor_state_dict({"0.weight": packed})
    return {name.removeprefix("0."): t for name, t in tensors.items()}, packed.dequantize().float().detach()
