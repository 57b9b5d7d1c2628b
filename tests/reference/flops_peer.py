"""Counts with torch what transformers and peft compute for forward and backward of tiny models.
usage: flops_peer.py DIRECTORY

For each case a config goes to DIRECTORY/<case> and a line into DIRECTORY/flops.json: what is frozen or adapted, the
lengths of the documents, and the operations. Documents are read a token at a time with a cache that keeps its graph, so
that a token attends to what came before it and nothing is computed only to be masked."""

import json
import pathlib
import re
import sys

import peft
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

SIZES = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=False)
MODELS = {
    "llama": transformers.LlamaConfig(**SIZES),
    "tied": transformers.LlamaConfig(**SIZES | {"tie_word_embeddings": True}),
    "window": transformers.MistralConfig(**SIZES, sliding_window=4, head_dim=8),
    "qwen3": transformers.Qwen3Config(**SIZES, head_dim=16),
    "gpt2": transformers.GPT2Config(vocab_size=61, n_embd=32, n_layer=3, n_head=4, n_positions=64, bos_token_id=1,
                                    eos_token_id=2),
    "phi3": transformers.Phi3Config(**SIZES, pad_token_id=0, bos_token_id=1, eos_token_id=2),
    "mixtral": transformers.MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2),
    "deepseek": transformers.DeepseekV3Config(
        **SIZES | {"num_key_value_heads": 4}, moe_intermediate_size=16, n_routed_experts=4, num_experts_per_tok=2, n_group=2,
        topk_group=1, first_k_dense_replace=1, n_shared_experts=1, q_lora_rank=12, kv_lora_rank=8, qk_rope_head_dim=4,
        qk_nope_head_dim=8, v_head_dim=6),
}
WHOLE, PACKED = [5], [3, 1, 6, 2]
SHORT = [1, 1, 1]  # transformers' cache of latents projects them anew for every token
# name: model, documents, frozen (a pattern), adapted (a pattern)
CASES = {
    "full": ("llama", WHOLE, "", ""),
    "packed": ("llama", PACKED, "", ""),
    "tied": ("tied", WHOLE, "", ""),
    "window": ("window", [7, 3], "", ""),
    "head-norms": ("qwen3", WHOLE, "", ""),
    "gpt2": ("gpt2", WHOLE, "", ""),
    "fused": ("phi3", WHOLE, "", ""),
    "experts": ("mixtral", PACKED, "", ""),
    "latent": ("deepseek", SHORT, "", ""),
    "lora-latent": ("deepseek", SHORT, "", r"q_b_proj|o_proj"),
    "frozen-embeddings": ("llama", WHOLE, r"embed_tokens", ""),
    "frozen-layers": ("llama", WHOLE, r"embed_tokens|layers\.[01]\.", ""),
    "head-alone": ("llama", WHOLE, r"^model\.", ""),
    "norms-alone": ("llama", WHOLE, r"proj|embed|lm_head", ""),
    "frozen-experts": ("mixtral", WHOLE, r"experts", ""),
    "frozen-below-experts": ("mixtral", WHOLE, r"embed_tokens|self_attn|layernorm|gate\.weight|lm_head|model\.norm", ""),
    "lora": ("llama", PACKED, "", r"(q|k|v|o|gate|up|down)_proj"),
    "lora-q": ("llama", WHOLE, "", r"q_proj"),
    "lora-v": ("qwen3", WHOLE, "", r"v_proj"),
    "lora-down": ("llama", WHOLE, "", r"down_proj"),
    "lora-gpt2": ("gpt2", WHOLE, "", r"c_attn|c_fc"),
    "lora-experts": ("mixtral", WHOLE, "", r"(q|v)_proj"),
    "forward": ("llama", PACKED, ".*", ""),
}
RANK = 3


def count(model, documents: list[int], has_backward: bool) -> int:
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(has_backward):
        for length in documents:
            cache = transformers.DynamicCache(config=model.config)
            logits = []
            for position in range(length):
                out = model(input_ids=torch.tensor([[position % 61]]), past_key_values=cache, use_cache=True,
                            position_ids=torch.tensor([[position]]))
                logits.append(out.logits)
            if has_backward:
                torch.cat(logits, 1).square().sum().backward()
    return counter.get_total_flops()


def main(directory: pathlib.Path) -> None:
    cases = {}
    for name, (kind, documents, frozen, adapted) in CASES.items():
        config = MODELS[kind]
        config.save_pretrained(directory / name)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        model.set_experts_implementation("eager")
        if adapted:
            targets = [path for path, module in model.named_modules()
                       if re.search(adapted, path) and hasattr(module, "weight")]
            model = peft.get_peft_model(model, peft.LoraConfig(r=RANK, target_modules=targets))
        for path, parameter in model.named_parameters():
            if frozen and re.search(frozen, path):
                parameter.requires_grad_(False)
        has_backward = name != "forward"
        cases[name] = {"documents": documents, "frozen": frozen, "adapted": adapted, "rank": RANK,
                       "has_backward": has_backward, "flops": count(model, documents, has_backward)}
    (directory / "flops.json").write_text(json.dumps(cases))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
