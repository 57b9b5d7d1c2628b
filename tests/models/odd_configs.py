"""Small configs of each family that are odd in some way: the sweep's only knowledge of a family. The first is the plain
one. As a program it prints them as JSON."""

import json

TINY = dict(vocab_size=97, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, pad_token_id=None, bos_token_id=1, eos_token_id=2)


# Keys and values from a latent, and experts behind the first layer.
LATENT = TINY | dict(num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8,
                     moe_intermediate_size=24, n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=1)


def rope(rope_type: str, **settings) -> dict:
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": 10000.0, **settings}}


ODD_CONFIGS = {
    "llama": {
        "grouped": TINY,
        "heads equal": {**TINY, "num_key_value_heads": 4, "tie_word_embeddings": True},
        "one kv head": {**TINY, "num_key_value_heads": 1, "head_dim": 24},
        "head_dim": {**TINY, "head_dim": 12, "rms_norm_eps": 1e-3},
        "biases": {**TINY, "attention_bias": True, "mlp_bias": True, "hidden_act": "gelu"},
        "linear": {**TINY, **rope("linear", factor=2.5)},
        "dynamic": {**TINY, "max_position_embeddings": 8, **rope("dynamic", factor=2.0)},
        "yarn": {**TINY, **rope("yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=16, beta_slow=2)},
        "llama3": {**TINY, **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                  original_max_position_embeddings=16)},
        "longrope short": {**TINY, **rope("longrope", factor=4.0, original_max_position_embeddings=32,
                                          short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[2.0, 2.5, 3.0, 4.0])},
        "longrope long": {**TINY, **rope("longrope", factor=4.0, original_max_position_embeddings=8,
                                         short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[2.0, 2.5, 3.0, 4.0])},
    },
    "phi3": {
        "plain": TINY,
        "window": {**TINY, "sliding_window": 5, "num_key_value_heads": 4},
        "partial rotary, tied": {**TINY, "tie_word_embeddings": True,
                                 **rope("default", partial_rotary_factor=0.5)},
        "longrope": {**TINY, "original_max_position_embeddings": 8,
                     **rope("longrope", short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[2.0, 2.5, 3.0, 4.0])},
    },
    "gpt2": {
        "plain": dict(vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=32, bos_token_id=1, eos_token_id=2,
                      resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
        "untied, inner": dict(vocab_size=97, n_embd=32, n_layer=3, n_head=2, n_positions=32, n_inner=40,
                              tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
                              scale_attn_by_inverse_layer_idx=True, layer_norm_epsilon=1e-3),
        "relu, unscaled": dict(vocab_size=97, n_embd=24, n_layer=1, n_head=3, n_positions=32, bos_token_id=1,
                               eos_token_id=2, activation_function="relu", scale_attn_weights=False),
    },
    "mixtral": {
        "plain": {**TINY, "num_local_experts": 4, "num_experts_per_tok": 2},
        "one of three, balanced": {**TINY, "num_local_experts": 3, "num_experts_per_tok": 1, "output_router_logits": True,
                                   "router_aux_loss_coef": 0.1, "tie_word_embeddings": True},
        "window, all experts": {**TINY, "num_local_experts": 2, "num_experts_per_tok": 2, "sliding_window": 4, "head_dim": 12},
    },
    "mistral": {
        "window": {**TINY, "sliding_window": 5},
        "no window, head_dim": {**TINY, "sliding_window": None, "head_dim": 12, "num_attention_heads": 6,
                                "num_key_value_heads": 3, "tie_word_embeddings": True},
    },
    "qwen2": {
        "plain": {**TINY, "num_key_value_heads": 1},
        "windows above": {**TINY, "num_hidden_layers": 3, "use_sliding_window": True, "sliding_window": 4,
                          "max_window_layers": 1, "tie_word_embeddings": True},
    },
    "qwen3": {
        "plain": {**TINY, "head_dim": 12},
        "biases, windows": {**TINY, "head_dim": 8, "attention_bias": True, "use_sliding_window": True,
                            "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"],
                            "tie_word_embeddings": True, "num_attention_heads": 6, "num_key_value_heads": 3},
    },
    "gemma": {
        "plain": {**TINY, "head_dim": 12},
        "one kv head, untied": {**TINY, "head_dim": 8, "num_key_value_heads": 1, "tie_word_embeddings": False,
                                "attention_bias": True, "hidden_act": "gelu"},
    },
    "gemma2": {
        "plain": {**TINY, "head_dim": 12, "num_hidden_layers": 3, "sliding_window": 4, "query_pre_attn_scalar": 20,
                  "final_logit_softcapping": 2.0, "attn_logit_softcapping": 3.0},
        "no caps, untied": {**TINY, "head_dim": 8, "final_logit_softcapping": None, "attn_logit_softcapping": None,
                            "tie_word_embeddings": False, "attention_bias": True,
                            "layer_types": ["full_attention", "full_attention"]},
    },
    "gemma3_text": {
        "plain": {**TINY, "head_dim": 12, "num_hidden_layers": 3, "sliding_window": 4, "query_pre_attn_scalar": 20,
                  "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
        "scaled, capped": {**TINY, "head_dim": 8, "sliding_window": 5, "final_logit_softcapping": 2.0,
                           "layer_types": ["full_attention", "sliding_attention"],
                           "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                                               "sliding_attention": {"rope_type": "default", "rope_theta": 5e3}}},
    },
    "olmo2": {
        "plain": TINY,
        "one kv head, biases": {**TINY, "num_key_value_heads": 1, "attention_bias": True, "tie_word_embeddings": True,
                                "rms_norm_eps": 1e-3},
    },
    "smollm3": {
        "every other without": {**TINY, "no_rope_layer_interval": 2, "tie_word_embeddings": False},
        # Without rotary embeddings the gradient of k's bias is nothing but rounding: softmax does not see it.
        "biases, windows": {**TINY, "num_hidden_layers": 3, "no_rope_layers": [1, 1, 1], "sliding_window": 4,
                            "layer_types": ["full_attention", "sliding_attention", "full_attention"],
                            "attention_bias": True, "mlp_bias": True},
        "windows without": {**TINY, "num_hidden_layers": 3, "no_rope_layers": [1, 0, 1], "use_sliding_window": True,
                            "sliding_window": 4},
    },
    "cohere": {
        "plain": TINY,
        "normed q and k": {**TINY, "use_qk_norm": True, "attention_bias": True, "logit_scale": 0.5,
                           "tie_word_embeddings": False, "num_attention_heads": 8, "num_key_value_heads": 4},
    },
    "cohere2": {
        "plain": {**TINY, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
        "untied": {**TINY, "num_hidden_layers": 3, "sliding_window": 5, "tie_word_embeddings": False,
                   "layer_types": ["full_attention"] + ["sliding_attention"] * 2},
        "biases": {**TINY, "sliding_window": 5, "attention_bias": True, "layer_types": ["sliding_attention"] * 2},
    },
    "gpt_neox": {
        "plain": {k: v for k, v in TINY.items() if k != "num_key_value_heads"} | rope("default", partial_rotary_factor=0.25),
        "one after the other": dict(vocab_size=97, hidden_size=24, intermediate_size=40, num_hidden_layers=3,
                                    num_attention_heads=3, max_position_embeddings=64, use_parallel_residual=False,
                                    attention_bias=False, tie_word_embeddings=True, hidden_act="gelu_new",
                                    bos_token_id=1, eos_token_id=2, **rope("default", partial_rotary_factor=1.0)),
    },
    "granite": {
        "plain": {**TINY, "embedding_multiplier": 3.0, "attention_multiplier": 0.3, "residual_multiplier": 0.22,
                  "logits_scaling": 4.0},
        "biases, tied": {**TINY, "num_key_value_heads": 1, "head_dim": 12, "attention_bias": True, "mlp_bias": True,
                         "tie_word_embeddings": True, "embedding_multiplier": 12, "residual_multiplier": 1.5,
                         "logits_scaling": 0.5},
        "no multipliers": TINY,
    },
    "starcoder2": {
        "plain": TINY,
        "window, no biases": {**TINY, "num_hidden_layers": 3, "use_bias": False, "sliding_window": 4, "head_dim": 12,
                              "tie_word_embeddings": False, "hidden_act": "gelu", "norm_epsilon": 1e-3},
        "one kv head, window": {**TINY, "num_key_value_heads": 1, "sliding_window": 5},
    },
    "qwen3_moe": {
        "plain": {**TINY, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "head_dim": 12},
        "weights of one, balanced": {**TINY, "num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 40,
                                     "norm_topk_prob": True, "output_router_logits": True, "router_aux_loss_coef": 0.1,
                                     "attention_bias": True, "tie_word_embeddings": True},
        "some layers, window": {**TINY, "num_hidden_layers": 4, "num_experts": 3, "num_experts_per_tok": 1,
                                "moe_intermediate_size": 16, "decoder_sparse_step": 2, "mlp_only_layers": [3],
                                "use_sliding_window": True, "sliding_window": 4},
    },
    "deepseek_v2": {
        "plain": {**LATENT, "num_experts_per_tok": 2, "topk_method": "group_limited_greedy", "n_group": 2, "topk_group": 1,
                  "routed_scaling_factor": 1.5},
        "queries without a latent": {**LATENT, "q_lora_rank": None, "num_experts_per_tok": 3, "first_k_dense_replace": 0,
                                     "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True,
                                     "n_shared_experts": 2},
        "yarn": {**LATENT, "num_experts_per_tok": 1, "v_head_dim": 12, "output_router_logits": True,
                 **rope("yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.7, mscale_all_dim=0.9)},
    },
    "deepseek_v3": {
        "plain": {**LATENT, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "routed_scaling_factor": 1.5},
        "halves, queries without a latent": {**LATENT, "q_lora_rank": None, "num_experts_per_tok": 3, "n_group": 1,
                                             "topk_group": 1, "norm_topk_prob": False, "rope_interleave": False,
                                             "attention_bias": True, "tie_word_embeddings": True, "v_head_dim": 12},
        "yarn, two groups of three": {**LATENT, "n_routed_experts": 6, "num_experts_per_tok": 3, "n_group": 3,
                                      "topk_group": 2, "first_k_dense_replace": 0,
                                      **rope("yarn", factor=4.0, original_max_position_embeddings=16, mscale=1.0,
                                             mscale_all_dim=1.0)},
    },
    "gpt_oss": {
        "plain": {**TINY, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 5},
        "no biases in the attention": {**TINY, "head_dim": 12, "num_hidden_layers": 3, "num_local_experts": 3,
                                       "num_experts_per_tok": 1, "sliding_window": 4, "attention_bias": False,
                                       "layer_types": ["full_attention", "sliding_attention", "full_attention"],
                                       "tie_word_embeddings": True, "swiglu_limit": 0.2, **rope("default")},
        "balanced": {**TINY, "head_dim": 8, "num_local_experts": 5, "num_experts_per_tok": 3, "sliding_window": 64,
                     "output_router_logits": True, "router_aux_loss_coef": 0.1, "swiglu_alpha": 1.0},
    },
}

if __name__ == "__main__":
    print(json.dumps(ODD_CONFIGS))
