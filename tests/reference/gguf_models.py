"""Writes models as GGUF files, as llama.cpp's converter lays them out."""

import pathlib
import tempfile

import gguf
import numpy as np
import safetensors.torch

F32 = gguf.GGMLQuantizationType.F32
OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
BLOCK = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "block_sparse_moe.gate": "ffn_gate_inp", "mlp.gate": "ffn_gate_inp"}
EXPERT = {"w1": "ffn_gate_exps", "w2": "ffn_down_exps", "w3": "ffn_up_exps",
          "gate_proj": "ffn_gate_exps", "down_proj": "ffn_down_exps", "up_proj": "ffn_up_exps"}


def paired(weight: np.ndarray, heads: int) -> np.ndarray:
    """The rows of q and k in llama.cpp's order, from Hugging Face's."""
    return weight.reshape(heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def unpaired(weight: np.ndarray, heads: int) -> np.ndarray:
    return weight.reshape(heads, -1, 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def tensor_name(path: str) -> str:
    """Of a parameter of transformers."""
    module, _, kind = path.rpartition(".")
    if module in OUTSIDE:
        return f"{OUTSIDE[module]}.{kind}"
    layer, _, module = module.removeprefix("model.layers.").partition(".")
    return f"blk.{layer}.{BLOCK[module]}.{kind}"


def start(path: pathlib.Path, arch: str, config) -> gguf.GGUFWriter:
    """A writer that has the sizes of a config of transformers."""
    writer = gguf.GGUFWriter(str(path), arch)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    return writer


def finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write(path: pathlib.Path, model, arch: str, kind=F32, more=lambda writer: None, rope_freqs=None) -> None:
    """A model of transformers with its matrices in one type; `more` adds metadata."""
    c = model.config
    writer = start(path, arch, c)
    if arch.startswith("qwen3"):
        writer.add_key_length(c.head_dim)
        writer.add_value_length(c.head_dim)
    if c.model_type in ("mixtral", "qwen3_moe"):
        writer.add_expert_count(c.num_local_experts)
        writer.add_expert_used_count(c.num_experts_per_tok)
    if c.model_type == "qwen3_moe":
        writer.add_expert_feed_forward_length(c.moe_intermediate_size)
    more(writer)

    def add(name: str, values: np.ndarray) -> None:
        if values.ndim > 1 and kind != F32:
            writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, values)

    experts: dict[str, list] = {}
    with tempfile.TemporaryDirectory() as directory:
        model.save_pretrained(directory)  # files hold experts one by one, under their own names
        state = safetensors.torch.load_file(pathlib.Path(directory) / "model.safetensors")
    for name, tensor in state.items():
        values = tensor.float().numpy()
        if ".experts." in name:
            layer, expert, which = name.split(".")[2], int(name.split(".")[5]), name.split(".")[6]
            experts.setdefault(f"blk.{layer}.{EXPERT[which]}.weight", []).append((expert, values))
            continue
        if arch == "llama" and "q_proj" in name:
            values = paired(values, c.num_attention_heads)
        if arch == "llama" and "k_proj" in name:
            values = paired(values, c.num_key_value_heads)
        add(tensor_name(name), np.ascontiguousarray(values))
    for name, parts in experts.items():
        add(name, np.stack([values for _, values in sorted(parts, key=lambda part: part[0])]))
    if rope_freqs is not None:
        writer.add_tensor("rope_freqs.weight", rope_freqs)
    finish(writer)
