"""Small configs of each family that are odd in some way: the sweep's only knowledge of a family. The first is the plain
one. As a program it prints them as JSON."""

import json

TINY = dict(vocab_size=97, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, pad_token_id=None, bos_token_id=1, eos_token_id=2)


# Keys and values from a latent, and experts behind the first layer.
LATENT = TINY | dict(num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8,
                     moe_intermediate_size=24, n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=1)


# No attention at all.
STATE_SPACE = dict(vocab_size=97, hidden_size=32, num_hidden_layers=2, pad_token_id=0, bos_token_id=1, eos_token_id=2)
# Linear attention in some layers; half of a head is rotated in the others.
HYBRID = dict(head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6, linear_value_head_dim=8,
              rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5})
# Chunks and temperatures that matter for a few tokens.
LLAMA4 = dict(head_dim=8, intermediate_size=24, intermediate_size_mlp=40, floor_scale=3, attn_scale=0.5)
# A mixer beside attention, and factors of everything.
FALCON_H1 = dict(mamba_d_ssm=48, mamba_n_heads=6, mamba_d_state=5, mamba_chunk_size=4, embedding_multiplier=3.0,
                 lm_head_multiplier=0.4, key_multiplier=1.7, attention_in_multiplier=0.8, attention_out_multiplier=1.3,
                 ssm_in_multiplier=1.2, ssm_out_multiplier=0.6)
# Sizes under names of its own.
DBRX = dict(vocab_size=97, d_model=32, n_heads=4, n_layers=2, max_seq_len=64, bos_token_id=1, eos_token_id=2)
# Linear attention, and a latent in the other layers.
KIMI = {key: value for key, value in TINY.items() if key != "max_position_embeddings"} | dict(
    num_key_value_heads=4, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8, moe_intermediate_size=24,
    num_experts=4, num_experts_per_token=2, linear_num_heads=4, linear_head_dim=8, model_max_length=64)
# Without grouped heads, and without a key for them.
ALIKE = {key: value for key, value in TINY.items() if key != "num_key_value_heads"}


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
    "olmo": {
        "plain": TINY,
        "clipped": {**TINY, "num_key_value_heads": 1, "attention_bias": True, "clip_qkv": 0.15, "tie_word_embeddings": True},
    },
    "olmo3": {
        "plain": {**TINY, "num_hidden_layers": 3, "sliding_window": 4,
                  "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
        "two tables": {**TINY, "num_key_value_heads": 1, "attention_bias": True, "sliding_window": 5, "rms_norm_eps": 1e-3,
                       "layer_types": ["full_attention", "sliding_attention"], "tie_word_embeddings": True,
                       "rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4,
                                                              "original_max_position_embeddings": 16},
                                           "sliding_attention": {"rope_type": "default", "rope_theta": 5e3}}},
    },
    "olmoe": {
        "plain": {**TINY, "num_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 24},
        "clipped, balanced": {**TINY, "num_experts": 5, "num_experts_per_tok": 3, "intermediate_size": 24, "clip_qkv": 0.7,
                              "norm_topk_prob": True, "attention_bias": True, "output_router_logits": True,
                              "router_aux_loss_coef": 0.1, "tie_word_embeddings": True},
    },
    "stablelm": {
        "plain": {**TINY, **rope("default", partial_rotary_factor=0.25)},
        "side by side": {**TINY, "use_qkv_bias": True, "use_parallel_residual": True, "tie_word_embeddings": True,
                         **rope("default", partial_rotary_factor=1.0)},
        "normed heads": {**TINY, "qk_layernorm": True, "layer_norm_eps": 1e-3, **rope("default", partial_rotary_factor=0.5)},
    },
    "phi": {
        "plain": {**TINY, **rope("default", partial_rotary_factor=0.5)},
        "normed heads": {**TINY, "num_key_value_heads": 1, "qk_layernorm": True, "hidden_act": "relu",
                         **rope("default", partial_rotary_factor=0.25)},
    },
    "phimoe": {
        "plain": {**TINY, "num_local_experts": 4, "num_experts_per_tok": 2},
        "far ones, balanced": {**TINY, "num_local_experts": 5, "num_experts_per_tok": 2, "router_jitter_noise": 0.4,
                               "attention_bias": True, "lm_head_bias": True, "output_router_logits": True,
                               "router_aux_loss_coef": 0.1, "sliding_window": 4},
        "longrope": {**TINY, "num_local_experts": 2, "num_experts_per_tok": 2, "tie_word_embeddings": True,
                     **rope("longrope", short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[2.0, 2.5, 3.0, 4.0],
                            short_mscale=1.3, long_mscale=1.3, original_max_position_embeddings=32)},
    },
    "glm": {
        "plain": {**TINY, "head_dim": 8, **rope("default", partial_rotary_factor=0.5)},
        "no biases": {**TINY, "head_dim": 12, "num_key_value_heads": 1, "attention_bias": False, "tie_word_embeddings": True,
                      **rope("default", partial_rotary_factor=1.0)},
    },
    "glm4": {
        "plain": {**TINY, "head_dim": 8, **rope("default", partial_rotary_factor=0.5)},
        "no biases": {**TINY, "head_dim": 12, "num_key_value_heads": 1, "attention_bias": False, "rms_norm_eps": 1e-3},
    },
    "glm4_moe": {
        "plain": {**TINY, "moe_intermediate_size": 24, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2,
                  "topk_group": 1, "routed_scaling_factor": 1.5},
        "normed heads": {**TINY, "moe_intermediate_size": 16, "n_routed_experts": 5, "n_shared_experts": 2,
                         "num_experts_per_tok": 3, "first_k_dense_replace": 0, "norm_topk_prob": False, "use_qk_norm": True,
                         "attention_bias": True, "head_dim": 12, "output_router_logits": True, "tie_word_embeddings": True},
    },
    "qwen2_moe": {
        "plain": {**TINY, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
                  "shared_expert_intermediate_size": 20},
        "some layers, windows": {**TINY, "num_hidden_layers": 4, "num_experts": 5, "num_experts_per_tok": 3,
                                 "moe_intermediate_size": 16, "shared_expert_intermediate_size": 12, "qkv_bias": False,
                                 "norm_topk_prob": True, "output_router_logits": True, "router_aux_loss_coef": 0.1,
                                 "decoder_sparse_step": 2, "mlp_only_layers": [3], "use_sliding_window": True,
                                 "sliding_window": 4, "max_window_layers": 2, "tie_word_embeddings": True},
    },
    "granitemoe": {
        "plain": {**TINY, "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 24, "embedding_multiplier": 3.0,
                  "attention_multiplier": 0.3, "residual_multiplier": 0.22, "logits_scaling": 4.0},
        "balanced": {**TINY, "num_local_experts": 3, "num_experts_per_tok": 1, "num_key_value_heads": 1, "attention_bias": True,
                     "output_router_logits": True, "router_aux_loss_coef": 0.1, "tie_word_embeddings": True,
                     "residual_multiplier": 1.5, "logits_scaling": 0.5},
    },
    "seed_oss": {
        "plain": {**TINY, "head_dim": 8},
        "biases": {**TINY, "head_dim": 12, "num_key_value_heads": 1, "attention_out_bias": True, "mlp_bias": True,
                   "tie_word_embeddings": True},
        "none": {**TINY, "head_dim": 8, "attention_bias": False},
    },
    "exaone4": {
        "plain": {**TINY, "num_hidden_layers": 3, "sliding_window": 4, "sliding_window_pattern": 2},
        "no windows": {**TINY, "num_key_value_heads": 1, "head_dim": 12, "sliding_window": None, "sliding_window_pattern": None,
                       "layer_types": ["full_attention"] * 2, "tie_word_embeddings": True},
    },
    "ernie4_5": {
        "plain": {**TINY, "head_dim": 12, "tie_word_embeddings": False},
        "biases": {**TINY, "head_dim": 8, "num_key_value_heads": 1, "use_bias": True},
    },
    "ernie4_5_moe": {
        "plain": {**TINY, "moe_intermediate_size": 24, "moe_num_experts": 4, "moe_k": 2, "moe_num_shared_experts": 1},
        "some layers, biases": {**TINY, "num_hidden_layers": 4, "moe_intermediate_size": 16, "moe_num_experts": 5, "moe_k": 3,
                                "moe_num_shared_experts": 0, "moe_layer_start_index": 0, "moe_layer_end_index": 2,
                                "moe_layer_interval": 2, "use_bias": True, "output_router_logits": True,
                                "router_aux_loss_coef": 0.1, "tie_word_embeddings": False, "head_dim": 12},
        "small sums": {**TINY, "moe_intermediate_size": 24, "moe_num_experts": 3, "moe_k": 1, "moe_norm_min": 0.9},
    },
    "hunyuan_v1_dense": {
        "plain": {**TINY, "head_dim": 8},
        "alpha, biases": {**TINY, "head_dim": 12, "num_key_value_heads": 1, "attention_bias": True, "tie_word_embeddings": True,
                          **rope("dynamic", factor=1.0, alpha=50.0)},
    },
    "nemotron": {
        "plain": {**TINY, **rope("default", partial_rotary_factor=0.5)},
        "biases": {**TINY, "num_key_value_heads": 1, "head_dim": 12, "attention_bias": True, "mlp_bias": True, "norm_eps": 1e-3,
                   "hidden_act": "gelu", "tie_word_embeddings": True, **rope("default", partial_rotary_factor=1.0)},
    },
    "arcee": {
        "plain": TINY,
        "biases": {**TINY, "num_key_value_heads": 1, "head_dim": 12, "attention_bias": True, "mlp_bias": True,
                   "tie_word_embeddings": True, **rope("linear", factor=2.5)},
    },
    "helium": {
        "plain": {**TINY, "head_dim": 8},
        "biases": {**TINY, "head_dim": 8, "num_key_value_heads": 1, "attention_bias": True, "mlp_bias": True,
                   "tie_word_embeddings": True, "rms_norm_eps": 1e-3},
    },
    "ministral": {
        "plain": {**TINY, "head_dim": 8, "sliding_window": 4},
        "some windows": {**TINY, "head_dim": 12, "num_hidden_layers": 3, "sliding_window": 5, "tie_word_embeddings": True,
                         "layer_types": ["full_attention", "sliding_attention", "full_attention"]},
    },
    "persimmon": {
        "plain": {**ALIKE, **rope("default", partial_rotary_factor=0.5)},
        "heads as they are": {**ALIKE, "num_attention_heads": 2, "qk_layernorm": False, "hidden_act": "gelu",
                              "tie_word_embeddings": True, **rope("default", partial_rotary_factor=0.25)},
    },
    "gptj": {
        "plain": dict(vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4, bos_token_id=1,
                      eos_token_id=2),
        "tied, inner": dict(vocab_size=97, n_embd=24, n_layer=3, n_head=2, n_positions=64, rotary_dim=10, n_inner=40,
                            activation_function="relu", layer_norm_epsilon=1e-3, tie_word_embeddings=True, bos_token_id=1,
                            eos_token_id=2),
    },
    "opt": {
        "plain": {**ALIKE, "ffn_dim": 56},
        "norms behind, narrow": dict(vocab_size=97, hidden_size=32, ffn_dim=40, num_hidden_layers=3, num_attention_heads=2,
                                     max_position_embeddings=64, word_embed_proj_dim=20, do_layer_norm_before=False,
                                     activation_function="gelu", pad_token_id=None, bos_token_id=1, eos_token_id=2),
        "bare": dict(vocab_size=97, hidden_size=24, ffn_dim=40, num_hidden_layers=2, num_attention_heads=3,
                     max_position_embeddings=64, enable_bias=False, layer_norm_elementwise_affine=False,
                     tie_word_embeddings=False, pad_token_id=None, bos_token_id=1, eos_token_id=2),
        "no last norm": {**ALIKE, "ffn_dim": 56, "_remove_final_layer_norm": True},
    },
    "mpt": {
        "plain": dict(vocab_size=97, d_model=32, n_heads=4, n_layers=2, max_seq_len=64, bos_token_id=1, eos_token_id=2,
                      use_cache=True),
        "clipped, six heads": dict(vocab_size=97, d_model=24, n_heads=6, n_layers=3, max_seq_len=64, bos_token_id=1,
                                   eos_token_id=2, tie_word_embeddings=False, use_cache=True, layer_norm_epsilon=1e-3,
                                   attn_config={"clip_qkv": 0.2, "softmax_scale": 0.7}),
    },
    "bloom": {
        "plain": dict(vocab_size=97, hidden_size=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2),
        "six heads, normed residuals": dict(vocab_size=97, hidden_size=24, n_layer=3, n_head=6, bos_token_id=1, eos_token_id=2,
                                            apply_residual_connection_post_layernorm=True, layer_norm_epsilon=1e-3,
                                            tie_word_embeddings=False),
    },
    "internlm2": {
        "plain": TINY,
        "biases": {**TINY, "num_attention_heads": 6, "num_key_value_heads": 3, "hidden_size": 48, "bias": True,
                   "tie_word_embeddings": True, **rope("linear", factor=2.5)},
        "one kv head": {**TINY, "num_key_value_heads": 1},
    },
    "falcon": {
        "one kv head": {**ALIKE, "ffn_hidden_size": 56, "tie_word_embeddings": False},
        "groups": {**ALIKE, "num_hidden_layers": 3, "num_kv_heads": 2, "new_decoder_architecture": True, "bias": True},
        "groups, one norm": {**ALIKE, "num_kv_heads": 1, "new_decoder_architecture": True, "num_ln_in_parallel_attn": 1},
        "distances, one after the other": {**ALIKE, "alibi": True, "multi_query": False, "parallel_attn": False, "bias": True,
                                           "activation": "relu"},
    },
    "mamba": {
        "plain": dict(STATE_SPACE, state_size=5, time_step_rank=3),
        "biases, untied": dict(STATE_SPACE, num_hidden_layers=3, state_size=4, expand=1, conv_kernel=3, use_bias=True,
                               use_conv_bias=False, tie_word_embeddings=False, hidden_act="gelu", layer_norm_epsilon=1e-3,
                               residual_in_fp32=False),
    },
    "falcon_mamba": {
        "plain": dict(STATE_SPACE, state_size=5, time_step_rank=3),
        "biases": dict(STATE_SPACE, state_size=4, conv_kernel=3, use_bias=True, mixer_rms_eps=1e-2, tie_word_embeddings=False),
    },
    "mamba2": {
        "plain": dict(STATE_SPACE, num_heads=8, head_dim=8, n_groups=2, state_size=6, chunk_size=4),
        "one group, biases": dict(STATE_SPACE, num_heads=4, head_dim=16, n_groups=1, state_size=5, chunk_size=32,
                                  conv_kernel=2, use_bias=True, tie_word_embeddings=True, time_step_limit=[0.0, 100.0]),
    },
    "qwen3_next": {
        "plain": {**TINY, **HYBRID, "num_hidden_layers": 3, "layer_types": ["linear_attention", "full_attention", "linear_attention"],
                  "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 20},
        "no experts, one key head": {**TINY, **HYBRID, "layer_types": ["linear_attention", "full_attention"], "num_experts": 0,
                                     "linear_num_key_heads": 1, "linear_num_value_heads": 3, "linear_conv_kernel_dim": 3,
                                     "tie_word_embeddings": True},
        "balanced, attention alone": {**TINY, **HYBRID, "layer_types": ["full_attention"] * 2, "num_experts": 3,
                                      "num_experts_per_tok": 1, "moe_intermediate_size": 16, "decoder_sparse_step": 2,
                                      "shared_expert_intermediate_size": 12, "norm_topk_prob": False, "attention_bias": True,
                                      "output_router_logits": True, "router_aux_loss_coef": 0.1},
    },
    "llama4_text": {
        "plain": {**TINY, **LLAMA4, "num_hidden_layers": 3, "interleave_moe_layer_step": 2, "no_rope_layers": [1, 1, 0],
                  "attention_chunk_size": 4, "num_local_experts": 3},
        "two experts, all with": {**TINY, **LLAMA4, "head_dim": 12, "num_local_experts": 4, "num_experts_per_tok": 2,
                                  "no_rope_layer_interval": 2, "attention_chunk_size": 5, "use_qk_norm": False,
                                  "layer_types": ["full_attention", "chunked_attention"], "tie_word_embeddings": True,
                                  "output_router_logits": True, "attn_scale": 0.7, "floor_scale": 2},
        "no experts, biases": {**TINY, **LLAMA4, "moe_layers": [], "intermediate_size_mlp": 56, "attention_chunk_size": 3, "attention_bias": True,
                               "no_rope_layers": [1, 1], "attn_temperature_tuning": False, **rope("linear", factor=2.5)},
    },
    "falcon_h1": {
        "plain": {**TINY, **FALCON_H1, "mlp_multipliers": [0.7, 1.6], "ssm_multipliers": [0.4, 1.3, 0.8, 1.7, 0.6]},
        "normed, groups": {**TINY, **FALCON_H1, "mamba_rms_norm": True, "mamba_n_groups": 2, "mamba_d_head": 16,
                           "mamba_n_heads": 4, "mamba_d_ssm": None, "projectors_bias": True, "mamba_proj_bias": True,
                           "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "key_multiplier": 0.5},
        "normed behind the gate": {**TINY, **FALCON_H1, "mamba_rms_norm": True, "mamba_norm_before_gate": False,
                                   "mamba_conv_bias": False, "mamba_d_conv": 3, "mamba_expand": 1, "mamba_d_ssm": None,
                                   "mamba_n_heads": 4, "mamba_d_state": 7, "mamba_chunk_size": 32, "head_dim": 12,
                                   "time_step_limit": [0.01, 100.0], "lm_head_multiplier": 1.0, "attention_in_multiplier": 1.4,
                                   "attention_out_multiplier": 0.5, "ssm_in_multiplier": 0.7, "ssm_out_multiplier": 1.1},
    },
    "deepseek": {
        "plain": {**TINY, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 2,
                  "moe_intermediate_size": 24, "first_k_dense_replace": 1},
        "weights of one, every other": {**TINY, "num_hidden_layers": 3, "n_routed_experts": 5, "num_experts_per_tok": 3,
                                        "moe_intermediate_size": 16, "moe_layer_freq": 2, "norm_topk_prob": True,
                                        "attention_bias": True, "tie_word_embeddings": True, **rope("linear", factor=2.5)},
        "no experts": {**TINY, "num_key_value_heads": 1},
    },
    "dbrx": {
        "plain": {**DBRX, "attn_config": {"clip_qkv": 8.0, "kv_n_heads": 2, "rope_theta": 10000.0},
                  "ffn_config": {"ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2}},
        "clipped, weights as they are": {**DBRX, "d_model": 24, "n_layers": 3, "output_router_logits": True,
                                         "attn_config": {"clip_qkv": 0.2, "rope_theta": 500.0},
                                         "ffn_config": {"ffn_hidden_size": 20, "moe_num_experts": 3, "moe_loss_weight": 0.1,
                                                        "moe_normalize_expert_weights": None, "ffn_act_fn": {"name": "gelu"}},
                                         **rope("linear", factor=2.5)},
    },
    "kimi_linear": {
        "plain": {**KIMI, "num_hidden_layers": 3, "layer_types": ["linear_attention", "full_attention", "linear_attention"]},
        "groups, queries of a latent": {**KIMI, "num_hidden_layers": 3, "q_lora_rank": 20, "num_expert_group": 2, "num_experts": 6,
                                        "num_shared_experts": 2, "num_experts_per_token": 3, "linear_num_heads": 3,
                                        "linear_head_dim": 6, "linear_conv_kernel_dim": 3, "moe_renormalize": False,
                                        "attention_bias": True, "routed_scaling_factor": 1.3, "rms_norm_eps": 1e-3,
                                        "layer_types": ["full_attention", "linear_attention", "linear_attention"],
                                        "mlp_layer_types": ["sparse", "sparse", "dense"]},
    },
    "minimax": {
        "plain": {**TINY, "num_hidden_layers": 3, "num_local_experts": 3, "block_size": 4, "full_attn_alpha_factor": 1.5,
                  "full_attn_beta_factor": 0.7, "linear_attn_alpha_factor": 0.8, "linear_attn_beta_factor": 1.3,
                  "mlp_alpha_factor": 1.2, "mlp_beta_factor": 0.9},
        "lightning alone, window": {**TINY, "num_local_experts": 4, "num_experts_per_tok": 1, "block_size": 32, "head_dim": 12,
                                    "layer_types": ["linear_attention", "full_attention"], "sliding_window": 4,
                                    "output_router_logits": True, "router_aux_loss_coef": 0.1, "hidden_act": "gelu",
                                    "tie_word_embeddings": True},
    },
    "qwen3_5_text": {
        "plain": {**TINY, **HYBRID, "num_hidden_layers": 3, "layer_types": ["linear_attention", "full_attention", "linear_attention"]},
        "heads equal, tied": {**TINY, **HYBRID, "linear_num_key_heads": 3, "linear_num_value_heads": 3, "linear_value_head_dim": 10,
                              "layer_types": ["full_attention", "linear_attention"], "tie_word_embeddings": True, "attention_bias": True},
    },
}

# Encoders and encoder-decoders, which have other tasks than a text decoder's.
TINY_T5 = dict(vocab_size=97, d_model=32, d_kv=8, d_ff=56, num_layers=2, num_heads=4, decoder_start_token_id=0,
               relative_attention_num_buckets=8, relative_attention_max_distance=12, dropout_rate=0.0)
TINY_BART = dict(vocab_size=97, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                 decoder_attention_heads=4, encoder_ffn_dim=56, decoder_ffn_dim=40, max_position_embeddings=64, dropout=0.0)
TINY_BERT = {k: v for k, v in TINY.items() if k not in ("num_key_value_heads", "pad_token_id")} | dict(
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)

# Windows that hide something of 13 tokens and still reach from padding to a token: a query that sees nothing gives zeros
# here, and in transformers a mean of everything, which labels and scores of padding would show.
TINY_MODERNBERT = dict(vocab_size=97, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4,
                       max_position_embeddings=64, local_attention=18, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                       cls_token_id=1, sep_token_id=2)

ENCODER_CONFIGS = {
    "t5": {
        "plain": TINY_T5,
        "gated, unscaled": {**TINY_T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "num_decoder_layers": 3,
                            "layer_norm_epsilon": 1e-3, "d_kv": 12},
        "gated silu, one layer": {**TINY_T5, "feed_forward_proj": "gated-silu", "num_layers": 3, "num_decoder_layers": 1,
                                  "relative_attention_num_buckets": 6, "pad_token_id": 3, "decoder_start_token_id": 5,
                                  "relative_attention_max_distance": 9, "scale_decoder_outputs": False,
                                  "classifier_dropout": 0.1, "initializer_factor": 0.5},
    },
    "mt5": {
        "plain": TINY_T5,
        "relu": {**TINY_T5, "feed_forward_proj": "relu", "num_decoder_layers": 1},
    },
    "umt5": {
        "plain": TINY_T5,
        "relu": {**TINY_T5, "feed_forward_proj": "relu", "num_decoder_layers": 3},
    },
    "bart": {
        "plain": TINY_BART,
        "scaled, uneven": {**TINY_BART, "scale_embedding": True, "encoder_layers": 1, "decoder_layers": 3,
                           "decoder_attention_heads": 2, "decoder_ffn_dim": 24, "activation_function": "relu", "tie_word_embeddings": False},
        "forced tokens": {**TINY_BART, "forced_bos_token_id": 7, "forced_eos_token_id": 9, "decoder_start_token_id": 4,
                          "pad_token_id": 3, "attention_dropout": 0.1, "activation_dropout": 0.1, "init_std": 0.1,
                          "classifier_dropout": 0.2, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0},
    },
    "mbart": {
        "plain": TINY_BART,
        "scaled": {**TINY_BART, "scale_embedding": True, "decoder_attention_heads": 2, "decoder_layers": 1},
    },
    "pegasus": {
        "plain": {**TINY_BART, "decoder_start_token_id": 0},
        "scaled, uneven": {**TINY_BART, "scale_embedding": True, "encoder_layers": 1, "decoder_layers": 3,
                           "decoder_attention_heads": 2, "decoder_ffn_dim": 24, "activation_function": "relu",
                           "tie_word_embeddings": False, "pad_token_id": 3, "decoder_start_token_id": 4},
    },
    "modernbert": {
        "plain": TINY_MODERNBERT,
        "biases, mean": {**TINY_MODERNBERT, "norm_bias": True, "attention_bias": True, "mlp_bias": True,
                         "classifier_pooling": "mean", "classifier_bias": True, "classifier_activation": "relu",
                         "decoder_bias": False, "tie_word_embeddings": False, "hidden_activation": "silu",
                         "norm_eps": 1e-3, "local_attention": 21, "layer_types": ["sliding_attention"] * 3,
                         "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e3},
                                             "sliding_attention": {"rope_type": "linear", "factor": 2.5, "rope_theta": 5e3}}},
        "windows narrower than the padding": {**TINY_MODERNBERT, "local_attention": 4},
    },
    "bert": {
        "plain": TINY_BERT,
        "relu, untied": {**TINY_BERT, "hidden_act": "relu", "tie_word_embeddings": False, "layer_norm_eps": 1e-3,
                         "type_vocab_size": 4, "num_hidden_layers": 3, "pad_token_id": 5, "classifier_dropout": 0.3},
    },
    "roberta": {
        "plain": TINY_BERT,
        "padding of 4": {**TINY_BERT, "pad_token_id": 4, "hidden_act": "gelu_new", "type_vocab_size": 1,
                         "tie_word_embeddings": False},
    },
    "xlm-roberta": {
        "plain": TINY_BERT,
    },
}

if __name__ == "__main__":
    print(json.dumps(ODD_CONFIGS | ENCODER_CONFIGS))
