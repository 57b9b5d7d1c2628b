#include "easydel/elarge/config/section_keys.h"

#include <algorithm>

namespace easydel {
namespace {

using std::string_view;

constexpr string_view kSections[] = {"model",   "teacher_model", "reference_model", "reward_model", "value_model",
                                     "loader",  "sharding",      "platform",        "quantization", "base_config",
                                     "mixture", "eval_mixture",  "esurge",          "trainer",      "eval",
                                     "serve"};

constexpr string_view kHuggingFace = "Files are read as Hugging Face writes them.";
constexpr string_view kNoCode = "Code from a repository is never run.";
constexpr string_view kUseLoader = "Set it in the section loader.";
constexpr string_view kUseSharding = "Set it in the section sharding.";
constexpr string_view kUseQuantization = "Set it in the section quantization.";
constexpr string_view kUseToken = "Set the environment variable HF_TOKEN; do not put tokens in a config file.";
constexpr OtherKey kExtraKwargs[] = {{"apply_quantization", "null", kUseQuantization},
                                     {"auto_shard_model", "null", kUseSharding},
                                     {"auto_shard_params", "null", kUseSharding},
                                     {"backend", "null", "Set platform.backend."},
                                     {"bit_targeted_params", "null", kUseQuantization},
                                     {"config_kwargs", "null", "Set the keys in base_config.values."},
                                     {"device", "null", kUseLoader},
                                     {"dtype", "null", kUseLoader},
                                     {"from_torch", "true", kHuggingFace},
                                     {"input_shape", "*", "It is not needed."},
                                     {"load_in_8bit", "false", "Set quantization.method to 8bit."},
                                     {"param_dtype", "null", kUseLoader},
                                     {"partition_axis", "null", kUseSharding},
                                     {"partition_rules", "null", "Rules come from the model's config."},
                                     {"platform", "*", "Kernels are chosen automatically."},
                                     {"precision", "null", kUseLoader},
                                     {"quantization_block_size", "null", kUseQuantization},
                                     {"quantization_config", "null", kUseQuantization},
                                     {"quantization_method", "null", kUseQuantization},
                                     {"quantization_pattern", "null", kUseQuantization},
                                     {"quantize_tensors", "null", kUseQuantization},
                                     {"shard_fns", "null", "Python functions cannot run here."},
                                     {"sharding_axis_dims", "null", kUseSharding},
                                     {"sharding_axis_names", "null", kUseSharding},
                                     {"sharding_dcn_axis_dims", "null", kUseSharding},
                                     {"token", "null", kUseToken},
                                     {"trust_remote_code", "*", kNoCode},
                                     {"use_auth_token", "null", kUseToken},
                                     {"verbose", "null", kUseLoader}};

constexpr OtherKey kLoader[] = {{"from_torch", "true", kHuggingFace}, {"trust_remote_code", "*", kNoCode}};

constexpr OtherKey kSharding[] = {
    {"partition_rules", "null", "Rules come from the model's config; partition_axis sets the axes they use."},
    {"shard_fns", "null", "Python functions cannot run here."},
    {"use_ring_of_experts", "false", "Tokens reach their experts by all-to-all."}};

constexpr OtherKey kPlatform[] = {{"platform", "*", "Kernels are chosen automatically."}};

constexpr string_view kKernels = "It selects one of EasyDeL's kernels.";
constexpr OtherKey kQuantization[] = {{"jax_native", "*", kKernels},
                                      {"platform", "*", kKernels},
                                      {"qmm_platform_override", "*", kKernels},
                                      {"qmm_tpu_path_override", "*", kKernels},
                                      {"use_qmm_best_config", "*", kKernels}};

constexpr string_view kPython = "Python functions cannot run here.";
constexpr string_view kNoImages = "Images are prepared by the model's processor; set trainer.image_field.";
constexpr OtherKey kInforms[] = {{"format_callback", "null", kPython},
                                 {"image_field", "null", kNoImages},
                                 {"image_size", "null", kNoImages},
                                 {"max_length", "null", "Set trainer.max_length."},
                                 {"pixel_field", "null", kNoImages},
                                 {"preprocessing_fn", "null", kPython},
                                 {"text_field", "null", "It is for images; the text column is content_field."}};

constexpr string_view kNoCloud =
    "Cloud storage is not supported; downloads from the hub have their own retries and cache.";
constexpr string_view kOlderLoader = "It belongs to an older EasyDeL data loader.";
constexpr OtherKey kMixture[] = {
    {"batch_size", "*", "The trainer makes the batches; set trainer.total_batch_size."},
    {"cache_expiry_seconds", "*", kNoCloud},
    {"cache_remote_files", "true", "Downloaded files are always cached."},
    {"cloud_max_retries", "*", kNoCloud},
    {"cloud_retry_delay", "*", kNoCloud},
    {"dask_storage_options", "null", "Dask is not supported."},
    {"enable_caching", "*", kOlderLoader},
    {"image_target_field", "\"image\"", kNoImages},
    {"num_workers", "*", kOlderLoader},
    {"pack_eos_token_id", "null", "Every text ends with the tokenizer's own eos_token."},
    {"pack_on_the_fly", "*", "Rows are always packed as they are read."},
    {"pack_shuffle", "true", "Set trainer.shuffle_train_dataset to false."},
    {"pack_shuffle_buffer_factor", "null", "Set shuffle_buffer_size."},
    {"prefetch_size", "*", kOlderLoader},
    {"save", "null", "Processed rows are not saved; the trainer processes them during training."},
    {"tokenize_callback", "null", kPython},
    {"use_fast_loader", "*", kOlderLoader},
    {"use_sharded_source", "*", kOlderLoader}};

// Additional keys of eval_mixture: those for the order of training rows, and those shared with mixture.
constexpr string_view kInOrder = "Evaluation reads every row once, in order.";
constexpr string_view kAsTraining = "Evaluation rows are prepared like those of mixture; set it there.";
constexpr OtherKey kEvalMixture[] = {{"block_mixture", "true", kInOrder},
                                     {"mixture_block_size", "2048", kInOrder},
                                     {"mixture_weights", "null", kInOrder},
                                     {"pack_seq_length", "null", kAsTraining},
                                     {"pack_tokens", "false", "Set trainer.eval_packing."},
                                     {"prefetch_buffer_size", "null", kInOrder},
                                     {"prefetch_workers", "null", kInOrder},
                                     {"seed", "null", kInOrder},
                                     {"shuffle_buffer_size", "null", kInOrder},
                                     {"stop_strategy", "\"restart\"", kInOrder},
                                     {"tokenization", "null", kAsTraining}};
constexpr OtherKey kEvalInforms[] = {{"weight", "null", kInOrder}};

constexpr string_view kMapping = "Rows are tokenized one by one, as they are read.";
constexpr OtherKey kTokenization[] = {
    {"batch_size", "*", kMapping},
    {"batched", "*", kMapping},
    {"keep_in_memory", "*", kMapping},
    {"num_proc", "*", kMapping},
    {"output_field", "*", "No column is written: ids go directly to the trainer."},
    {"remove_columns", "*", "Columns that the trainer does not read are dropped anyway."},
    {"return_attention_mask", "true", "Padding is always masked."},
    {"truncation", "true", "Rows longer than trainer.max_length are always truncated, or split by packing."}};

constexpr string_view kJax = "It is specific to JAX, TPUs or EasyDeL's kernels.";
constexpr OtherKey kBaseValues[] = {{"backend", "null", "Set platform.backend."},
                                    {"bits", "null", "Set quantization.method."},
                                    {"easy_method", "*", kJax},
                                    {"flash_attention_backward_pass_impl", "*", kJax},
                                    {"hardware_abstraction", "*", kJax},
                                    {"kv_cache_sharding_sequence_axis_name", "\"sp\"", "Set sharding.partition_axis."},
                                    {"mla_attn_dtype", "null", "Set attn_dtype."},
                                    {"mla_attn_mechanism", "null", "Set attn_mechanism."},
                                    {"mla_attn_softmax_dtype", "null", "Set attn_softmax_dtype."},
                                    {"moe_force_xla_gmm", "*", kJax},
                                    {"moe_tiling_size_batch", "*", kJax},
                                    {"moe_tiling_size_dim", "*", kJax},
                                    {"moe_tiling_size_seqlen", "*", kJax},
                                    {"operation_configs", "*", kJax},
                                    {"pallas_k_block_size", "*", kJax},
                                    {"pallas_m_block_size", "*", kJax},
                                    {"pallas_n_block_size", "*", kJax},
                                    {"platform", "*", kJax},
                                    {"precompute_masks", "*", kJax},
                                    {"qmm_platform_override", "*", kJax},
                                    {"qmm_tpu_path_override", "*", kJax},
                                    {"scan_attention_layers", "*", kJax},
                                    {"scan_ring_attention", "*", kJax},
                                    {"sequence_axis_name", "\"sp\"", "Set sharding.partition_axis."},
                                    {"use_qmm_best_config", "*", kJax},
                                    {"use_ring_of_experts", "false", "Tokens reach their experts by all-to-all."},
                                    {"use_sharding_constraint", "*", kJax}};

constexpr string_view kEngine = "The engine here has no such setting.";
constexpr OtherKey kEsurge[] = {{"async_scheduling", "*", "Set serve.async_scheduling."},
                                {"auto_cap_new_tokens", "*", kEngine},
                                {"auto_shard_model", "*", kEngine},
                                {"auto_truncate_prompt", "*", kEngine},
                                {"bind_graphstate_for_aot", "*", kEngine},
                                {"compile_runner", "*", kEngine},
                                {"data_parallelism_axis", "*", "Set serve.data_parallel_size."},
                                {"decode_truncated_prompt", "*", kEngine},
                                {"destroy_pages_on_pause", "*", kEngine},
                                {"detokenizer_endpoint", "*", kEngine},
                                {"detokenizer_max_states", "*", kEngine},
                                {"distributed_advertise_addr", "*", kEngine},
                                {"distributed_auth_token", "*", kEngine},
                                {"distributed_connect_timeout_s", "*", kEngine},
                                {"distributed_control_bind_host", "*", kEngine},
                                {"distributed_control_port", "*", kEngine},
                                {"distributed_mode", "*", kEngine},
                                {"distributed_rank", "*", kEngine},
                                {"distributed_role", "*", kEngine},
                                {"distributed_service_name", "*", kEngine},
                                {"distributed_step_timeout_s", "*", kEngine},
                                {"distributed_verify_sampling_digest", "*", kEngine},
                                {"distributed_world_size", "*", kEngine},
                                {"enable_window_aware_runtime_cap", "*", kEngine},
                                {"esurge_name", "*", kEngine},
                                {"extra_eos_token_ids", "null", "Set eos_token_id in generation_config.json."},
                                {"extra_stops", "null", "Requests specify their own stop strings."},
                                {"idle_reset_min_interval", "*", kEngine},
                                {"idle_reset_seconds", "*", kEngine},
                                {"ignore_stop_strings_in_reasoning", "*", kEngine},
                                {"long_prefill_token_threshold", "*", kEngine},
                                {"max_num_seq_buckets", "*", kEngine},
                                {"min_input_pad", "*", kEngine},
                                {"min_token_pad", "*", kEngine},
                                {"overlap_execution", "*", kEngine},
                                {"prefer_preserve_prompt", "*", kEngine},
                                {"reserve_tokens", "*", kEngine},
                                {"runner_verbose", "*", kEngine},
                                {"sampler_metrics", "*", kEngine},
                                {"sampling_params_callback", "*", kEngine},
                                {"sharding_axis_dims", "null", kUseSharding},
                                {"silent_mode", "*", kEngine},
                                {"strict_context", "*", kEngine},
                                {"tokenizer_endpoint", "*", kEngine},
                                {"truncate_mode", "*", kEngine},
                                {"use_aot_forward", "*", kEngine},
                                {"verbose", "*", kEngine},
                                {"worker_startup_timeout", "*", kEngine}};

constexpr string_view kUseKwargs = "Set gen_kwargs.";
constexpr string_view kUseArguments = "Set chat_template_args.";
constexpr string_view kUseFilters = "Write filter_list and metric_list into the task.";
constexpr string_view kHarness = "It is specific to lm-evaluation-harness's Python code.";
constexpr string_view kNoCache = "Requests are not cached.";
constexpr string_view kSeeds = "It is not used; few-shot examples are drawn with fewshot_random_seed.";
constexpr OtherKey kEval[] = {
    {"cache_requests", "*", kNoCache},
    {"check_integrity", "false", kHarness},
    {"code_eval_num_workers", "null", "Programs run four at a time."},
    {"delete_requests_cache", "*", kNoCache},
    {"device", "null", "Set loader.device."},
    {"enable_thinking", "false", kUseArguments},
    {"evaluation_tracker", "null", kHarness},
    {"hard_max_new_tokens", "false", kUseKwargs},
    {"ignore_benchmark_eos_flags", "false", kUseKwargs},
    {"include_defaults", "*", "There are no built-in tasks; include_path lists directories with task files."},
    {"log_samples", "false", "Only aggregate results are written."},
    {"math_answer_task_hints", "null", kUseFilters},
    {"max_batch_size", "null", "Set batch_size."},
    {"max_new_tokens", "8192", kUseKwargs},
    {"metadata", "null", kHarness},
    {"normalize_math_answers", "true", kUseFilters},
    {"numpy_random_seed", "*", kSeeds},
    {"predict_only", "false", kHarness},
    {"random_seed", "*", kSeeds},
    {"rewrite_requests_cache", "*", kNoCache},
    {"samples", "null", "Set limit."},
    {"sampling_params", "null", kUseKwargs},
    {"task_manager", "null", kHarness},
    {"temperature", "0.0", kUseKwargs},
    {"think_end_token", "null", kUseFilters},
    {"think_start_token", "null", kUseFilters},
    {"top_p", "0.95", kUseKwargs},
    {"torch_random_seed", "*", kSeeds},
    {"use_cache", "null", kNoCache},
    {"verbosity", "*", "Use the flag --log."},
    {"write_out", "false", kHarness}};

struct SectionKeys {
  string_view section;
  std::span<const OtherKey> keys;
};
constexpr SectionKeys kKeys[] = {{"model.extra_kwargs", kExtraKwargs},
                                 {"loader", kLoader},
                                 {"sharding", kSharding},
                                 {"platform", kPlatform},
                                 {"quantization", kQuantization},
                                 {"base_config.values", kBaseValues},
                                 {"mixture", kMixture},
                                 {"mixture.informs", kInforms},
                                 {"mixture.tokenization", kTokenization},
                                 {"eval_mixture", kEvalMixture},
                                 {"eval_mixture.informs", kEvalInforms},
                                 {"esurge", kEsurge},
                                 {"eval", kEval}};

}  // namespace

bool OtherKey::accepts(const Json& value) const {
  return is_noted() || value.is_null() || value == Json::parse(accepted);
}

std::span<const OtherKey> other_keys(string_view section) {
  for (const SectionKeys& keys : kKeys) {
    if (keys.section == section) return keys.keys;
  }
  return {};
}

const OtherKey* other_key(string_view section, string_view key) {
  for (const OtherKey& other : other_keys(section)) {
    if (other.name == key) return &other;
  }
  return nullptr;
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
