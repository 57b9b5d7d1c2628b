"""A small Llama as a GGUF file whose matrices are Q4_K, Q5_K, Q6_K, Q8_0 and Q4_0, with random codes, and beside it the
dense weights that the gguf package says they stand for, under Hugging Face's names. usage: write_gguf.py DIRECTORY"""

import pathlib
import sys

import gguf
import numpy as np
from safetensors.numpy import save_file

Type = gguf.GGMLQuantizationType
HIDDEN, INNER, HEADS, KV_HEADS, VOCAB = 256, 512, 4, 2, 96
rng = np.random.default_rng(7)


def halves(count: int, size: float) -> np.ndarray:
    return (rng.uniform(0.5, 1, (count, 1)) * size).astype(np.float16).view(np.uint8)


def random_blocks(rows: int, columns: int, kind: Type) -> np.ndarray:
    """Bytes [rows, bytes of a row] of weights around 0.05."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    count = rows * columns // elements
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    if kind in (Type.Q4_K, Type.Q5_K):
        blocks[:, 0:2] = halves(count, 1e-4 if kind == Type.Q5_K else 2e-4)
        blocks[:, 2:4] = halves(count, 1e-3)
    elif kind == Type.Q6_K:
        blocks[:, 208:210] = halves(count, 4e-5)
    else:
        blocks[:, 0:2] = halves(count, 1e-3 if kind == Type.Q8_0 else 1e-2)
    return blocks.reshape(rows, -1)


def unpaired(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of q and k as Hugging Face has them, from llama.cpp's order."""
    return weight.reshape(heads, -1, 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


directory = pathlib.Path(sys.argv[1])
writer = gguf.GGUFWriter(str(directory / "model.gguf"), "llama")
writer.add_context_length(64)
writer.add_block_count(1)
writer.add_embedding_length(HIDDEN)
writer.add_feed_forward_length(INNER)
writer.add_head_count(HEADS)
writer.add_head_count_kv(KV_HEADS)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_rope_freq_base(10000.0)
dense = {}
kv_rows = HIDDEN // HEADS * KV_HEADS
for name, path, rows, columns, kind, heads in (
    ("token_embd", "model.embed_tokens", VOCAB, HIDDEN, Type.Q6_K, 0),
    ("output", "lm_head", VOCAB, HIDDEN, Type.Q5_K, 0),
    ("blk.0.attn_q", "model.layers.0.self_attn.q_proj", HIDDEN, HIDDEN, Type.Q4_K, HEADS),
    ("blk.0.attn_k", "model.layers.0.self_attn.k_proj", kv_rows, HIDDEN, Type.Q8_0, KV_HEADS),
    ("blk.0.attn_v", "model.layers.0.self_attn.v_proj", kv_rows, HIDDEN, Type.Q6_K, 0),
    ("blk.0.attn_output", "model.layers.0.self_attn.o_proj", HIDDEN, HIDDEN, Type.Q5_K, 0),
    ("blk.0.ffn_gate", "model.layers.0.mlp.gate_proj", INNER, HIDDEN, Type.Q4_0, 0),
    ("blk.0.ffn_up", "model.layers.0.mlp.up_proj", INNER, HIDDEN, Type.Q4_K, 0),
    ("blk.0.ffn_down", "model.layers.0.mlp.down_proj", HIDDEN, INNER, Type.Q8_0, 0),
):
    blocks = random_blocks(rows, columns, kind)
    writer.add_tensor(f"{name}.weight", blocks, raw_dtype=kind)
    values = gguf.dequantize(blocks, kind).astype(np.float32)
    dense[f"{path}.weight"] = np.ascontiguousarray(unpaired(values, heads) if heads else values)
for name, path in (
    ("output_norm", "model.norm"),
    ("blk.0.attn_norm", "model.layers.0.input_layernorm"),
    ("blk.0.ffn_norm", "model.layers.0.post_attention_layernorm"),
):
    values = rng.uniform(0.5, 1.5, HIDDEN).astype(np.float32)
    writer.add_tensor(f"{name}.weight", values)
    dense[f"{path}.weight"] = values
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
save_file(dense, str(directory / "dense.safetensors"))
