"""What bitsandbytes' AdamW8bit makes of parameters and gradients on the CPU. usage: adamw_8bit_peer.py OUT SEED

Writes safetensors: <dtype>/params/<path>, <dtype>/gradients/<step>/<path>, <dtype>/<step>/<path> after that step, the
moments of the end under <dtype>/state/<path>/<part>, and the code books.

The CPU kernel for float32 looks codes up in a table of 1/32768 steps, which is coarse near 0. Here bitsandbytes takes its
generic path, which finds the nearest code as its CUDA kernel does."""

import sys

import bitsandbytes as bnb
import bitsandbytes.backends.cpu.ops as cpu_ops
import bitsandbytes.functional as F
import torch
from safetensors.torch import save_file

STEPS = 25
SHAPES = {"rows.weight": (64, 256), "odd.weight": (61, 103), "flat": (4096,), "bias": (100,)}



def quantize_to_the_nearest(values, code, absmax_out, out, blocksize):
    codes, absmax = torch.ops.bitsandbytes.quantize_blockwise(values.double(), code, blocksize)
    out.copy_(codes)
    absmax_out.copy_(absmax)


cpu_ops._quant_blockwise_fp32_direct = quantize_to_the_nearest
torch.set_num_threads(1)
output, seed = sys.argv[1], int(sys.argv[2])
torch.manual_seed(seed)
tensors = {"book": F.create_dynamic_map(signed=True), "unsigned_book": F.create_dynamic_map(signed=False)}
for dtype in (torch.float32, torch.bfloat16):
    name = str(dtype).removeprefix("torch.")
    params = {path: (torch.randn(shape) + 0.5).to(dtype).requires_grad_() for path, shape in SHAPES.items()}
    tensors |= {f"{name}/params/{path}": param.detach().clone() for path, param in params.items()}
    optimizer = bnb.optim.AdamW8bit(params.values(), lr=3e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for step in range(STEPS):
        for path, param in params.items():
            size = torch.randn(1).exp()
            param.grad = (torch.randn(param.shape) * size).to(dtype)
            param.grad.view(-1)[:512] = 0  # whole blocks without a gradient
            tensors[f"{name}/gradients/{step}/{path}"] = param.grad.clone()
        optimizer.step()
        tensors |= {f"{name}/{step}/{path}": param.detach().clone() for path, param in params.items()}
    for path, param in params.items():
        for part, value in optimizer.state[param].items():
            if part in ("state1", "state2", "absmax1", "absmax2"):
                tensors[f"{name}/state/{path}/{part}"] = value.clone()
save_file(tensors, output)
