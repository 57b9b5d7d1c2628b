"""The other side of the config tests: transformers writes configs, and reads what easydel made of them.

usage: configs_peer.py write DIRECTORY       one folder for each config, with its config.json
       configs_peer.py check DIRECTORY OURS  what easydel wrote under OURS means the same to transformers
"""

import json
import pathlib
import random
import sys
import warnings

warnings.filterwarnings("ignore")
from transformers import AutoConfig, GPT2Config, LlamaConfig, MixtralConfig, Phi3Config, PreTrainedConfig, logging  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "models"))
import remote_code  # noqa: E402, F401
from audio_configs import SETTINGS as AUDIO_CONFIGS  # noqa: E402
from odd_configs import ENCODER_CONFIGS, ODD_CONFIGS  # noqa: E402

logging.set_verbosity_error()

DRAWN = {"llama": LlamaConfig, "phi3": Phi3Config, "gpt2": GPT2Config, "mixtral": MixtralConfig}

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 512}
LONGROPE = {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [2, 2.5, 3, 3.5]}

# As transformers 5 makes and saves them.
MADE = {
    "llama_default": LlamaConfig(),
    "llama_grouped": LlamaConfig(hidden_size=64, num_attention_heads=8, num_key_value_heads=2, head_dim=24),
    "llama_biases": LlamaConfig(attention_bias=True, mlp_bias=True, attention_dropout=0.25, hidden_act="gelu"),
    "llama_tied": LlamaConfig(tie_word_embeddings=True, pad_token_id=0, bos_token_id=None, eos_token_id=[2, 7, 9]),
    "llama_one_eos_in_a_list": LlamaConfig(eos_token_id=[5], pretraining_tp=None),
    "llama_labels": LlamaConfig(num_labels=12, problem_type="multi_label_classification"),
    "llama_named_labels": LlamaConfig(id2label={0: "no", 1: "yes", 2: "so"}, label2id={"no": 0, "yes": 1, "so": 2}),
    "llama_one_label": LlamaConfig(num_labels=1, problem_type="regression"),
    "llama_dtype": LlamaConfig(dtype="bfloat16", architectures=["LlamaForCausalLM"]),
    "llama_linear": LlamaConfig(rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}),
    "llama_dynamic": LlamaConfig(rope_parameters={"rope_type": "dynamic", "factor": 4, "rope_theta": 10000}),
    "llama_yarn": LlamaConfig(
        rope_parameters={"rope_type": "yarn", "factor": 4.0, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False,
                         "mscale": 0.7, "mscale_all_dim": 0.9, "attention_factor": 1.5}),
    "llama_llama3": LlamaConfig(rope_parameters={"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3}),
    "llama_longrope": LlamaConfig(
        hidden_size=32, num_attention_heads=4, rope_parameters={"rope_type": "longrope", "factor": 8.0, **LONGROPE}),
    "llama_partial": LlamaConfig(rope_parameters={"rope_type": "default", "partial_rotary_factor": 0.5}),
    "llama_unknown_keys": LlamaConfig(
        custom={"z": [1, {"b": None, "a": 1e-7}], "a": True}, a_first=1, zz_last="end", quantization_config={"bits": 4}),
    "llama_outputs": LlamaConfig(output_hidden_states=True, use_cache=False, chunk_size_feed_forward=8),
    "phi3_default": Phi3Config(),
    "phi3_longrope": Phi3Config(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=131072, vocab_size=64000,
        rope_parameters={"rope_type": "longrope", **LONGROPE}, sliding_window=2047, resid_pdrop=0.1),
    "phi3_partial": Phi3Config(partial_rotary_factor=0.75, tie_word_embeddings=True),
    "gpt2_default": GPT2Config(),
    "gpt2_odd": GPT2Config(n_embd=48, n_head=6, n_layer=3, n_inner=100, activation_function="relu", n_positions=77,
                           scale_attn_by_inverse_layer_idx=True, reorder_and_upcast_attn=True, attn_pdrop=0,
                           tie_word_embeddings=False, summary_activation="tanh", num_labels=5),
    "gpt2_by_the_usual_names": GPT2Config(hidden_size=32, num_attention_heads=4, num_hidden_layers=2,
                                          max_position_embeddings=64),
    "mixtral_default": MixtralConfig(),
    "mixtral_odd": MixtralConfig(hidden_size=48, num_attention_heads=6, num_key_value_heads=3, head_dim=16, num_experts=5,
                                 num_experts_per_tok=3, output_router_logits=True, router_jitter_noise=0.01,
                                 sliding_window=128, rope_parameters={"rope_type": "llama3", "rope_theta": 1e5, **LLAMA3}),
}  # fmt: skip

# As older files have it, keys in their own order.
OLDER = {
    "llama_2": {"architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
                "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008, "max_length": 4096,
                "max_position_embeddings": 2048, "model_type": "llama", "num_attention_heads": 32,
                "num_hidden_layers": 32, "pad_token_id": 0, "rms_norm_eps": 1e-05, "rope_scaling": None,
                "tie_word_embeddings": False, "torch_dtype": "float16", "transformers_version": "4.31.0.dev0",
                "use_cache": True, "vocab_size": 32000},
    "llama_3": {"model_type": "llama", "vocab_size": 128256, "rope_theta": 500000.0, "torch_dtype": "bfloat16",
                "rope_scaling": {"rope_type": "llama3", **LLAMA3}, "eos_token_id": [128001, 128008], "head_dim": None,
                "max_position_embeddings": 131072, "_name_or_path": "somebody/something", "zz": 1, "aa": 2},
    "llama_type_for_rope_type": {"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2.0}},
    "llama_both_types": {"model_type": "llama", "rope_theta": 1e6,
                         "rope_scaling": {"factor": 4.0, "type": "yarn", "rope_type": "yarn", "finetuned": True,
                                          "original_max_position_embeddings": 1024}},
    "llama_partial_outside": {"model_type": "llama", "partial_rotary_factor": 0.5, "rope_theta": 20000},
    "llama_both_dtypes": {"model_type": "llama", "dtype": "float32", "torch_dtype": "bfloat16"},
    "llama_empty_dtype": {"model_type": "llama", "dtype": None, "torch_dtype": "float16"},
    "llama_num_labels": {"model_type": "llama", "num_labels": 4, "zz": 0},
    "llama_num_labels_wins": {"model_type": "llama", "num_labels": 3, "id2label": {"0": "a", "1": "b"}},
    "llama_unicode": {"model_type": "llama", "id2label": {"0": "ménage", "1": "日本"}, "tag": "\U0001f600 é"},
    "llama_two_labels": {"model_type": "llama", "num_labels": 2},
    "llama_generation_keys": {"model_type": "llama", "temperature": 0.6, "top_p": 0.9, "do_sample": True},
    "llama_nulls": {"model_type": "llama", "num_key_value_heads": None, "head_dim": None, "rope_parameters": None,
                    "id2label": None, "architectures": None},
    "phi3_longrope_by_type": {"model_type": "phi3", "hidden_size": 32, "num_attention_heads": 4, "max_position_embeddings": 131072,
                "rope_scaling": {"type": "longrope", **LONGROPE}, "rope_theta": 10000.0, "sliding_window": 262144,
                "original_max_position_embeddings": 2048, "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}},
    "phi3_partial_outside": {"model_type": "phi3", "partial_rotary_factor": 0.75, "rope_theta": 1000.0},
    "gpt2_small": {"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
                   "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
                   "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
                   "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": None,
                   "summary_first_dropout": 0.1, "summary_proj_to_labels": True, "summary_type": "cls_index",
                   "summary_use_proj": True, "vocab_size": 50257,
                   "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}},
    "gpt2_usual_names": {"model_type": "gpt2", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
    "mixtral_8x7b": {"model_type": "mixtral", "rope_theta": 1000000.0, "num_local_experts": 8, "sliding_window": None,
                     "torch_dtype": "bfloat16", "num_key_value_heads": 8, "router_aux_loss_coef": 0.02},
    "mixtral_num_experts": {"model_type": "mixtral", "num_experts": 4, "sliding_window": 4096},
    "mistral_7b": {"model_type": "mistral", "rope_theta": 10000.0, "sliding_window": 4096, "torch_dtype": "bfloat16"},
    "qwen2_7b": {"model_type": "qwen2", "rope_theta": 1000000.0, "sliding_window": 131072, "max_window_layers": 28,
                 "use_sliding_window": False, "num_hidden_layers": 28, "num_key_value_heads": 4},
    "qwen2_windows": {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 64, "max_window_layers": 30},
    "qwen3_8b": {"model_type": "qwen3", "attention_bias": False, "head_dim": 128, "rope_scaling": None,
                 "rope_theta": 1000000, "use_sliding_window": False, "sliding_window": None, "max_window_layers": 36},
    "gemma_2b": {"model_type": "gemma", "hidden_act": "gelu", "hidden_activation": None, "head_dim": 256,
                 "num_key_value_heads": 1, "rope_scaling": None, "rope_theta": 10000.0},
    "gemma2_9b": {"model_type": "gemma2", "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
                  "query_pre_attn_scalar": 256, "cache_implementation": "hybrid", "num_hidden_layers": 42,
                  "hidden_size": 3584, "num_attention_heads": 16, "rope_theta": 10000.0},
    "gemma3_1b": {"model_type": "gemma3_text", "rope_theta": 1000000, "rope_local_base_freq": 10000, "rope_scaling": None,
                  "sliding_window": 512, "sliding_window_pattern": 6, "num_hidden_layers": 26, "hidden_size": 1152,
                  "num_attention_heads": 4, "num_key_value_heads": 1},
    "gemma3_scaled": {"model_type": "gemma3_text", "rope_theta": 1000000, "sliding_window_pattern": 3,
                      "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    "olmo2_7b": {"model_type": "olmo2", "rope_theta": 500000, "rope_scaling": None, "rms_norm_eps": 1e-06},
    "smollm3_3b": {"model_type": "smollm3", "rope_theta": 5000000.0, "no_rope_layer_interval": 4, "max_window_layers": 28,
                   "use_sliding_window": False, "sliding_window": None, "pretraining_tp": 2},
    "cohere_r": {"model_type": "cohere", "rope_theta": 8000000.0, "logit_scale": 0.0625, "use_qk_norm": True,
                 "num_key_value_heads": 8},
    "cohere2_r7b": {"model_type": "cohere2", "sliding_window_pattern": 4, "sliding_window": 4096, "rope_theta": 50000,
                    "num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096, "head_dim": 128,
                    "rope_scaling": None, "order_of_interleaved_layers": "local_attn_first"},
    "gpt_neox_pythia": {"model_type": "gpt_neox", "rotary_emb_base": 10000, "rotary_pct": 0.25, "hidden_size": 512,
                        "num_attention_heads": 8, "intermediate_size": 2048, "num_hidden_layers": 6,
                        "use_parallel_residual": True, "torch_dtype": "float16"},
    "gpt_neox_whole_heads": {"model_type": "gpt_neox", "rotary_pct": 1.0, "use_parallel_residual": False},
    "qwen3_30b": {"model_type": "qwen3_moe", "decoder_sparse_step": 1, "head_dim": 128, "max_window_layers": 48,
                  "mlp_only_layers": [], "norm_topk_prob": True, "num_experts": 128, "num_experts_per_tok": 8,
                  "rope_scaling": None, "rope_theta": 1000000.0, "use_sliding_window": False, "sliding_window": None},
    "deepseek_v2_lite": {"model_type": "deepseek_v2", "aux_loss_alpha": 0.001, "ep_size": 1, "first_k_dense_replace": 1,
                         "kv_lora_rank": 512, "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 64, "n_shared_experts": 2,
                         "norm_topk_prob": False, "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 27,
                         "hidden_size": 2048, "num_key_value_heads": 16, "q_lora_rank": None, "rope_theta": 10000,
                         "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
                                          "original_max_position_embeddings": 4096, "type": "yarn"},
                         "scoring_func": "softmax", "seq_aux": True, "topk_group": 1, "topk_method": "greedy"},
    "deepseek_v3_671b": {"model_type": "deepseek_v3", "ep_size": 1, "moe_layer_freq": 1, "num_nextn_predict_layers": 1,
                         "rope_theta": 10000, "max_position_embeddings": 163840, "scoring_func": "sigmoid",
                         "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                                          "original_max_position_embeddings": 4096, "type": "yarn"},
                         "topk_method": "noaux_tc", "torch_dtype": "bfloat16"},
    "gpt_oss_20b": {"model_type": "gpt_oss", "experts_per_token": 4, "num_local_experts": 32, "num_hidden_layers": 24,
                    "initial_context_length": 4096, "rope_theta": 150000, "swiglu_limit": 7.0, "eos_token_id": 200002,
                    "pad_token_id": 199999, "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
                    "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": False}},
    "olmo_7b": {"model_type": "olmo", "rope_theta": 10000.0, "rope_scaling": None, "clip_qkv": None, "pad_token_id": 1},
    "olmo3_7b": {"model_type": "olmo3", "rope_theta": 500000, "sliding_window": 4096, "num_hidden_layers": 8,
                 "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192,
                                  "attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0}},
    "olmoe_7b": {"model_type": "olmoe", "num_experts": 64, "num_experts_per_tok": 8, "rope_theta": 10000.0, "rope_scaling": None},
    "stablelm_2": {"model_type": "stablelm", "partial_rotary_factor": 0.25, "rope_theta": 10000, "use_qkv_bias": True},
    "stablelm_12b": {"model_type": "stablelm", "rope_theta": 10000, "qk_layernorm": True, "use_parallel_residual": True},
    "phi_2": {"model_type": "phi", "partial_rotary_factor": 0.4, "rope_theta": 10000.0, "rope_scaling": None,
              "hidden_size": 2560, "num_hidden_layers": 32, "qk_layernorm": False},
    "phimoe_3_5": {"model_type": "phimoe", "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
                   "rope_theta": 10000.0, "attention_bias": True, "lm_head_bias": True, "input_jitter_noise": 0.01,
                   "rope_scaling": {"type": "longrope", **LONGROPE, "short_mscale": 1.243, "long_mscale": 1.243,
                                    "original_max_position_embeddings": 4096}},
    "glm_9b": {"model_type": "glm", "partial_rotary_factor": 0.5, "rope_theta": 10000.0, "head_dim": 128,
               "eos_token_id": [151329, 151336, 151338]},
    "glm4_0414": {"model_type": "glm4", "rope_theta": 10000.0, "head_dim": 128, "attention_bias": False},
    "glm4_moe_air": {"model_type": "glm4_moe", "partial_rotary_factor": 0.5, "rope_theta": 1000000, "rope_scaling": None,
                     "n_routed_experts": 128, "num_nextn_predict_layers": 1, "head_dim": 128, "use_qk_norm": False},
    "qwen2_moe_a14b": {"model_type": "qwen2_moe", "rope_theta": 1000000.0, "sliding_window": 65536, "max_window_layers": 28,
                       "use_sliding_window": False, "num_experts": 64, "num_experts_per_tok": 8},
    "granitemoe_3b": {"model_type": "granitemoe", "rope_theta": 10000.0, "rope_scaling": None, "num_local_experts": 40},
    "seed_oss_36b": {"model_type": "seed_oss", "rope_theta": 10000000.0, "rope_scaling": {"rope_type": "default"}, "head_dim": 128},
    "exaone4_32b": {"model_type": "exaone4", "sliding_window": 4096, "sliding_window_pattern": "LLLG", "num_hidden_layers": 4,
                    "layer_types": ["sliding_attention"] * 3 + ["full_attention"], "rope_theta": 1000000,
                    "rope_scaling": {"rope_type": "llama3", **LLAMA3}},
    "ernie4_5_21b": {"model_type": "ernie4_5_moe", "rope_theta": 500000.0, "moe_k": 6, "moe_num_experts": 64,
                     "moe_layer_end_index": 27, "moe_capacity": [64, 64, 64]},
    "hunyuan_7b": {"model_type": "hunyuan_v1_dense", "rope_theta": 10000.0, "head_dim": 128, "attention_head_dim": 128,
                   "rope_scaling": {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0,
                                    "mscale_all_dim": 1.0, "type": "dynamic"}},
    "nemotron_minitron": {"model_type": "nemotron", "partial_rotary_factor": 0.5, "rope_theta": 10000.0,
                          "num_key_value_heads": 8, "head_dim": 128},
    "internlm2_5_7b": {"model_type": "internlm2", "bias": False, "rope_theta": 1000000, "num_key_value_heads": 8,
                       "rope_scaling": {"type": "dynamic", "factor": 2.0}, "attn_implementation": "eager", "pad_token_id": 2},
    "persimmon_8b": {"model_type": "persimmon", "partial_rotary_factor": 0.5, "rope_theta": 25000.0, "rope_scaling": None},
    "gptj_6b": {"model_type": "gptj", "n_embd": 4096, "rotary": True, "rotary_dim": 64, "scale_attn_weights": True,
                "summary_type": "cls_index"},
    "opt_350m": {"model_type": "opt", "hidden_size": 1024, "ffn_dim": 4096, "num_hidden_layers": 24,
                 "num_attention_heads": 16, "do_layer_norm_before": False, "word_embed_proj_dim": 512,
                 "activation_dropout": 0.0, "prefix": "</s>"},
    "mpt_7b": {"model_type": "mpt", "d_model": 4096, "n_heads": 32, "n_layers": 32,
               "attn_config": {"alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0, "clip_qkv": None,
                               "attn_type": "multihead_attention", "model_type": "", "softmax_scale": None}},
    "bloom_560m": {"model_type": "bloom", "n_embed": 1024, "n_layer": 24, "num_attention_heads": 16, "offset_alibi": 100,
                   "seq_length": 2048},
    "falcon_7b": {"model_type": "falcon", "alibi": False, "bias": False, "multi_query": True, "parallel_attn": True,
                  "new_decoder_architecture": False, "num_attention_heads": 71, "rope_theta": 10000.0},
    "falcon_40b": {"model_type": "falcon", "hidden_size": 8192, "num_attention_heads": 128, "num_kv_heads": 8,
                   "new_decoder_architecture": True, "ffn_hidden_size": None},
    "llama4_scout": {"model_type": "llama4_text", "num_hidden_layers": 8, "rope_theta": 500000.0, "attention_chunk_size": 8192,
                     "rope_scaling": {"rope_type": "llama3", **LLAMA3}, "no_rope_layers": [], "for_llm_compressor": False,
                     "interleave_moe_layer_step": 1, "moe_layers": list(range(8)), "layer_types": None},
    "falcon_h1_1_5b": {"model_type": "falcon_h1", "rope_theta": 100000000000.0, "rope_scaling": None, "mamba_d_head": 64,
                       "mamba_d_ssm": 3072, "mamba_n_heads": 48, "mamba_use_mlp": True, "attn_layer_indices": None,
                       "key_multiplier": 0.39062499999999994, "mlp_multipliers": [0.8838834764831844, 0.5859375]},
    "deepseek_moe_16b": {"model_type": "deepseek", "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
                         "first_k_dense_replace": 1, "moe_layer_freq": 1, "norm_topk_prob": False, "rope_scaling": None,
                         "rope_theta": 10000, "aux_loss_alpha": 0.001, "seq_aux": True, "auto_map": {"AutoConfig": "x.DeepseekConfig"}},
    "minimax_text_01": {"model_type": "minimax", "rope_theta": 10000000, "num_hidden_layers": 4, "layernorm_alpha": 3.5565588200778455,
                        "layer_types": ["linear_attention"] * 3 + ["full_attention"], "full_attn_alpha_factor": 3.5565588200778455},
    "kimi_linear_48b": {"model_type": "kimi_linear", "num_hidden_layers": 5, "first_k_dense_replace": 2, "moe_layer_freq": 1,
                        "linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2, 3, 5], "head_dim": 64, "num_heads": 16,
                                               "short_conv_kernel_size": 3},
                        "mla_use_nope": True, "moe_router_activation_func": "sigmoid", "use_grouped_topk": True,
                        "num_nextn_predict_layers": 0, "q_lora_rank": None, "model_max_length": 1048576},
    "modernbert_base": {"model_type": "modernbert", "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0,
                        "local_rope_theta": 10000.0, "layer_norm_eps": 1e-05, "position_embedding_type": "absolute",
                        "num_hidden_layers": 7, "local_attention": 128, "classifier_pooling": "mean"},
    "pegasus_large": {"model_type": "pegasus", "add_bias_logits": False, "add_final_layer_norm": True, "normalize_before": True,
                      "scale_embedding": True, "static_position_embeddings": True, "num_beams": 8, "bos_token_id": 0},
}  # fmt: skip


def draw(family: str, rng: random.Random):
    """A random config of the family, valid to transformers."""
    heads = rng.choice([2, 4, 6])
    head_dim = rng.choice([4, 8])
    sizes = {"vocab_size": rng.randint(60000, 70000), "tie_word_embeddings": rng.random() < 0.5,
             "initializer_range": rng.choice([0.02, 0.1, 1e-3]), "use_cache": rng.random() < 0.5,
             "pad_token_id": rng.choice([None, 0, 3]), "eos_token_id": rng.choice([None, 2, [2], [2, 3]]),
             f"key_{rng.randint(0, 99)}": rng.choice([1, 1.5, None, "text", [1, 2], {"b": 1, "a": 2}])}  # fmt: skip
    if rng.random() < 0.3:
        sizes["num_labels"] = rng.randint(1, 12)
    if family == "gpt2":
        return GPT2Config(n_embd=heads * head_dim, n_head=heads, n_layer=rng.randint(0, 3), **sizes)
    scalings = [{"rope_type": "default"}, {"rope_type": "longrope", "short_factor": [1.0] * (head_dim // 2),
                                           "long_factor": [rng.uniform(1, 9) for _ in range(head_dim // 2)]}]  # fmt: skip
    if family != "phi3":
        scalings += [{"rope_type": "linear", "factor": rng.uniform(1, 9)}, {"rope_type": "dynamic", "factor": 2.0},
                     {"rope_type": "yarn", "factor": rng.uniform(1, 9)}, {"rope_type": "llama3", **LLAMA3}]  # fmt: skip
    rope = rng.choice(scalings)
    if rng.random() < 0.5:
        rope = {**rope, "rope_theta": rng.choice([1e4, 5e5, 1234.5])}
    if family == "mixtral" and (rope["rope_type"] == "longrope" or rng.random() < 0.5):
        sizes["head_dim"] = head_dim  # transformers cannot check longrope without it
    return DRAWN[family](
        hidden_size=heads * head_dim, num_attention_heads=heads, rope_parameters=rope,
        num_key_value_heads=rng.choice([k for k in range(1, heads + 1) if heads % k == 0]), **sizes)  # fmt: skip


def write(directory: pathlib.Path) -> None:
    made = dict(MADE)
    rng = random.Random(20240621)
    for family in DRAWN:
        made |= {f"{family}_drawn_{i}": draw(family, rng) for i in range(25)}
    for family, configs in (ODD_CONFIGS | ENCODER_CONFIGS | AUDIO_CONFIGS).items():
        made[f"{family}_untouched"] = AutoConfig.for_model(family)
        for i, settings in enumerate(configs.values()):
            extra = {f"key_{rng.randint(0, 99)}": rng.choice([1.5, None, "text", {"b": 1, "a": 2}]),
                     "eos_token_id": rng.choice([None, [2], [2, 3]]), "initializer_range": rng.choice([0.02, 1e-3])}  # fmt: skip
            made[f"{family}_odd_{i}"] = AutoConfig.for_model(family, **settings | extra)
    for name, config in made.items():
        config.save_pretrained(directory / "made" / name)
    for name, values in OLDER.items():
        (directory / "older" / name).mkdir(parents=True)
        (directory / "older" / name / "config.json").write_text(json.dumps(values, indent=2) + "\n")


def meaning(directory: pathlib.Path) -> dict:
    values = AutoConfig.from_pretrained(directory).to_dict()
    values.pop("_name_or_path", None)
    return values


def check(directory: pathlib.Path, ours: pathlib.Path) -> int:
    faults, seen = [], 0
    for source in sorted(directory.glob("*/*")):
        seen += 1
        expected, found = meaning(source), meaning(ours / source.name)
        # The file itself must say what transformers worked out, without a second look at older keys.
        text = PreTrainedConfig._dict_from_json_file(ours / source.name / "config.json")  # where infinity is an object
        plain = {key: expected[key] for key in text if key in expected and key not in ("id2label", "transformers_version", "attn_config", "ffn_config")}
        if "rope_parameters" in text:
            text["rope_parameters"].setdefault("partial_rotary_factor", 1.0)
            plain["rope_parameters"] = {"partial_rotary_factor": 1.0, **plain["rope_parameters"]}
        for key in sorted(expected.keys() | found.keys()):
            if expected.get(key) != found.get(key):
                faults.append(f"{source.name}: {key} is {found.get(key)!r} to transformers, not {expected.get(key)!r}")
        for key, value in plain.items():
            if text[key] != value:
                faults.append(f"{source.name}: {key} was written as {text[key]!r}, not {value!r}")
    for family in ODD_CONFIGS | ENCODER_CONFIGS | AUDIO_CONFIGS:
        seen += 1
        expected, found = json.loads(json.dumps(AutoConfig.for_model(family).to_dict())), json.loads(json.dumps(meaning(ours / f"default_{family}")))
        expected.pop("_name_or_path", None)
        if expected != found:
            faults.append(f"the defaults of {family} are {found}, not {expected}")
    print("\n".join(faults) or f"{seen} configs mean the same")
    return 1 if faults else 0


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(pathlib.Path(sys.argv[2]))
    else:
        sys.exit(check(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])))
