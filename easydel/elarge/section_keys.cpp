#include "easydel/elarge/section_keys.h"

#include <algorithm>

namespace easydel {
namespace {

using std::string_view;

constexpr string_view kSections[] = {"model",        "teacher_model", "reference_model", "reward_model", "loader",
                                     "sharding",     "platform",      "quantization",    "base_config",  "mixture",
                                     "eval_mixture", "esurge",        "trainer",         "eval"};

constexpr string_view kShardingNotYet[] = {"partition_rules", "shard_fns", "use_ring_of_experts"};
constexpr string_view kPlatform[] = {"backend", "platform"};
constexpr string_view kQuantization[] = {"platform", "use_qmm_best_config", "qmm_platform_override",
                                         "qmm_tpu_path_override"};

constexpr string_view kInforms[] = {"max_length"};
constexpr string_view kInformsNotYet[] = {"format_callback", "image_field",      "image_size",
                                          "pixel_field",     "preprocessing_fn", "text_field"};
constexpr string_view kMixture[] = {"cache_expiry_seconds", "cache_remote_files",   "cloud_max_retries",
                                    "cloud_retry_delay",    "dask_storage_options", "enable_caching",
                                    "image_target_field",   "num_workers",          "pack_eos_token_id",
                                    "pack_on_the_fly",      "pack_shuffle",         "pack_shuffle_buffer_factor",
                                    "prefetch_size",        "use_fast_loader",      "use_sharded_source"};
constexpr string_view kMixtureNotYet[] = {"save", "tokenize_callback"};
constexpr string_view kTokenization[] = {"batch_size",   "batched",        "keep_in_memory",       "num_proc",
                                         "output_field", "remove_columns", "return_attention_mask"};

constexpr string_view kBaseValues[] = {"backend",
                                       "bits",
                                       "easy_method",
                                       "flash_attention_backward_pass_impl",
                                       "hardware_abstraction",
                                       "kv_cache_sharding_sequence_axis_name",
                                       "mla_attn_dtype",
                                       "mla_attn_mechanism",
                                       "mla_attn_softmax_dtype",
                                       "moe_force_xla_gmm",
                                       "moe_tiling_size_batch",
                                       "moe_tiling_size_dim",
                                       "moe_tiling_size_seqlen",
                                       "operation_configs",
                                       "pallas_k_block_size",
                                       "pallas_m_block_size",
                                       "pallas_n_block_size",
                                       "platform",
                                       "precompute_masks",
                                       "qmm_platform_override",
                                       "qmm_tpu_path_override",
                                       "scan_attention_layers",
                                       "scan_ring_attention",
                                       "sequence_axis_name",
                                       "use_qmm_best_config",
                                       "use_ring_of_experts",
                                       "use_sharding_constraint"};

constexpr string_view kEsurge[] = {"async_scheduling",
                                   "auto_cap_new_tokens",
                                   "auto_shard_model",
                                   "auto_truncate_prompt",
                                   "bind_graphstate_for_aot",
                                   "compile_runner",
                                   "data_parallelism_axis",
                                   "decode_truncated_prompt",
                                   "destroy_pages_on_pause",
                                   "detokenizer_endpoint",
                                   "detokenizer_max_states",
                                   "distributed_advertise_addr",
                                   "distributed_auth_token",
                                   "distributed_connect_timeout_s",
                                   "distributed_control_bind_host",
                                   "distributed_control_port",
                                   "distributed_mode",
                                   "distributed_rank",
                                   "distributed_role",
                                   "distributed_service_name",
                                   "distributed_step_timeout_s",
                                   "distributed_verify_sampling_digest",
                                   "distributed_world_size",
                                   "enable_prefix_caching",
                                   "enable_window_aware_runtime_cap",
                                   "esurge_name",
                                   "extra_eos_token_ids",
                                   "extra_stops",
                                   "hbm_utilization",
                                   "idle_reset_min_interval",
                                   "idle_reset_seconds",
                                   "ignore_stop_strings_in_reasoning",
                                   "long_prefill_token_threshold",
                                   "max_model_len",
                                   "max_num_batched_tokens",
                                   "max_num_seq_buckets",
                                   "max_num_seqs",
                                   "min_input_pad",
                                   "min_token_pad",
                                   "overlap_execution",
                                   "page_size",
                                   "prefer_preserve_prompt",
                                   "reasoning_parser",
                                   "reserve_tokens",
                                   "runner_verbose",
                                   "sampler_metrics",
                                   "sampling_params_callback",
                                   "sharding_axis_dims",
                                   "silent_mode",
                                   "strict_context",
                                   "tokenizer_endpoint",
                                   "tool_parser",
                                   "truncate_mode",
                                   "use_aot_forward",
                                   "verbose",
                                   "worker_startup_timeout"};

constexpr string_view kEval[] = {"cache_requests",
                                 "chat_template_args",
                                 "check_integrity",
                                 "code_eval_num_workers",
                                 "code_eval_timeout",
                                 "confirm_run_unsafe_code",
                                 "delete_requests_cache",
                                 "device",
                                 "enable_thinking",
                                 "evaluation_tracker",
                                 "fewshot_as_multiturn",
                                 "gen_kwargs",
                                 "hard_max_new_tokens",
                                 "ignore_benchmark_eos_flags",
                                 "include_defaults",
                                 "log_samples",
                                 "math_answer_task_hints",
                                 "max_batch_size",
                                 "metadata",
                                 "normalize_math_answers",
                                 "numpy_random_seed",
                                 "predict_only",
                                 "random_seed",
                                 "rewrite_requests_cache",
                                 "samples",
                                 "sampling_params",
                                 "task_manager",
                                 "think_end_token",
                                 "think_start_token",
                                 "torch_random_seed",
                                 "use_cache",
                                 "verbosity",
                                 "write_out"};

constexpr SectionKeys kKeys[] = {{"sharding", {}, kShardingNotYet},
                                 {"platform", kPlatform, {}},
                                 {"quantization", kQuantization, {}},
                                 {"mixture", kMixture, kMixtureNotYet},
                                 {"eval_mixture", kMixture, kMixtureNotYet},
                                 {"mixture.informs", kInforms, kInformsNotYet},
                                 {"mixture.tokenization", kTokenization, {}},
                                 {"base_config.values", kBaseValues, {}},
                                 {"esurge", kEsurge, {}},
                                 {"eval", kEval, {}}};

}  // namespace

SectionKeys section_keys(string_view section) {
  for (const SectionKeys& keys : kKeys) {
    if (keys.section == section) return keys;
  }
  return {section, {}, {}};
}

bool among(string_view key, std::span<const string_view> names) {
  return std::find(names.begin(), names.end(), key) != names.end();
}

bool asks(const Json& value) {
  if (value.is_bool()) return value.as_bool();
  if (value.is_number()) return value.as_double() != 0;
  return value.is_string() ? !value.as_string().empty() : value.size() > 0;
}

std::span<const string_view> section_names() { return kSections; }

}  // namespace easydel
