"""A small Llama as a GGUF file whose matrices are Q4_K, Q5_K, Q6_K, Q8_0 and Q4_0, with random codes, and beside it the
dense weights that the gguf package says they stand for, under Hugging Face's names. usage: write_gguf.py DIRECTORY"""

import pathlib
import sys
import types

import gguf
import numpy as np
from safetensors.numpy import save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "reference"))
import gguf_models

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


directory = pathlib.Path(sys.argv[1])
config = types.SimpleNamespace(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=1,
                               num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, max_position_embeddings=64,
                               rms_norm_eps=1e-5, rope_parameters={"rope_theta": 10000.0})
writer = gguf_models.start(directory / "model.gguf", "llama", config)
dense = {}
kv_rows = HIDDEN // HEADS * KV_HEADS
for path, rows, columns, kind, heads in (
    ("model.embed_tokens", VOCAB, HIDDEN, Type.Q6_K, 0),
    ("lm_head", VOCAB, HIDDEN, Type.Q5_K, 0),
    ("model.layers.0.self_attn.q_proj", HIDDEN, HIDDEN, Type.Q4_K, HEADS),
    ("model.layers.0.self_attn.k_proj", kv_rows, HIDDEN, Type.Q8_0, KV_HEADS),
    ("model.layers.0.self_attn.v_proj", kv_rows, HIDDEN, Type.Q6_K, 0),
    ("model.layers.0.self_attn.o_proj", HIDDEN, HIDDEN, Type.Q5_K, 0),
    ("model.layers.0.mlp.gate_proj", INNER, HIDDEN, Type.Q4_0, 0),
    ("model.layers.0.mlp.up_proj", INNER, HIDDEN, Type.Q4_K, 0),
    ("model.layers.0.mlp.down_proj", HIDDEN, INNER, Type.Q8_0, 0),
):
    blocks = random_blocks(rows, columns, kind)
    writer.add_tensor(gguf_models.tensor_name(f"{path}.weight"), blocks, raw_dtype=kind)
    values = gguf.dequantize(blocks, kind).astype(np.float32)
    dense[f"{path}.weight"] = np.ascontiguousarray(gguf_models.unpaired(values, heads) if heads else values)
for path in (
    "model.norm",
    "model.layers.0.input_layernorm",
    "model.layers.0.post_attention_layernorm",
):
    values = rng.uniform(0.5, 1.5, HIDDEN).astype(np.float32)
    writer.add_tensor(gguf_models.tensor_name(f"{path}.weight"), values)
    dense[f"{path}.weight"] = values
gguf_models.finish(writer)
save_file(dense, str(directory / "dense.safetensors"))
