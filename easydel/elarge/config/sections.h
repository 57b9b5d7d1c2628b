// The sections of a run's config, with EasyDeL's keys and defaults.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/dtype.h"
#include "easydel/core/json/json.h"
#include "easydel/data/options.h"
#include "easydel/infra/options/quantize_options.h"
#include "easydel/infra/options/sharding_options.h"
#include "easydel/infra/task_type.h"
#include "easydel/sharding/mesh/mesh.h"

namespace easydel {

class FieldVisitor;

// model, teacher_model, reference_model, reward_model, value_model.
struct ModelSection {
  std::string name_or_path;
  std::optional<std::string> tokenizer;  // name_or_path
  std::optional<std::string> task;       // what the files were saved with
  Json extra_kwargs = Json::object();    // revision, and keys of the model's config

  std::string revision() const;  // of the hub
  TaskType task_type() const;    // ConfigError, or NotSupportedError on a task of EasyDeL that is not here
};

// What is null depends on the machine: compute_settings().
struct LoaderSection {
  std::optional<std::string> device;
  std::optional<DType> dtype;        // what the model computes in
  std::optional<DType> param_dtype;  // what it stores
  std::optional<std::string> precision;
  bool verbose = true;
};

struct PlatformSection {
  std::optional<std::string> backend;  // cpu or gpu: the device, where loader.device is null
};

struct ShardingSection : ShardingOptions {
  ShardingSection() {
    axis_dims = {1, 1, 1, -1, 1};
    axis_names = MeshOptions{}.axis_names;
    auto_shard_model = true;
  }
};

// How weights are packed as they are read; without a method they stay as the files are.
struct QuantizationSection {
  QuantizeOptions weights{.method = {}};
  Json kv_cache;  // {dtype: int8}: keys and values in 8 bits
  Json model;     // `weights` as a mapping of EasyDeL's: {dtype: nf4, group_size: 64}
};

struct BaseConfigSection {
  Json values = Json::object();             // of the model's config
  Json operation_configs = Json::object();  // of EasyDeL's kernels
};

using TextMap = std::map<std::string, std::string>;

// What is null is as the trainer's arguments have it.
struct TokenizationSection {
  std::optional<std::string> tokenizer;
  std::optional<int64_t> max_length;
  Json padding = false;  // true and "longest" mean the same; "max_length"
  std::optional<bool> add_special_tokens;
  std::optional<std::string> text_field;

  bool pads_to_max_length() const { return padding == Json("max_length"); }
};

// mixture, eval_mixture.
struct MixtureSection : data::MixtureOptions {
  MixtureSection() { shuffle_buffer_size = 1000; }

  std::optional<TokenizationSection> tokenization;
  std::optional<int64_t> shuffle_seed;  // the trainer's shuffle_seed_train
  bool pack_tokens = false;
  std::string tokens_field_name = "tokens";
  std::optional<int64_t> pack_seq_length;
  std::optional<int64_t> prefetch_workers;  // the trainer's dataloader_num_workers, else two
  int64_t prefetch_buffer_size = 4;
};

struct EvalSection {
  std::optional<int64_t> num_fewshot;
  Json batch_size;  // a number, "auto" or null
  std::optional<double> limit;
  std::optional<std::string> system_instruction;
  bool use_tqdm = true;
  TextList include_path;               // directories with task files
  int64_t bootstrap_iters = 100000;    // draws for the standard error of a perplexity; 0: no standard errors
  int64_t fewshot_random_seed = 1234;  // of the examples before a question
  bool apply_chat_template = false;
  Json chat_template_args = Json::object();  // variables of the template
  bool fewshot_as_multiturn = false;
  Json gen_kwargs = Json::object();  // over the generation_kwargs of tasks
  bool confirm_run_unsafe_code = false;
  std::optional<double> code_eval_timeout;  // seconds; null: 3
};

// The engine, under EasyDeL's names. What is null is the engine's own.
struct EsurgeSection {
  std::optional<int64_t> max_model_len;
  std::optional<int64_t> max_num_seqs;
  std::optional<int64_t> max_num_batched_tokens;
  std::optional<int64_t> page_size;
  std::optional<double> hbm_utilization;
  std::optional<bool> enable_prefix_caching;
  std::optional<std::string> tool_parser;
  std::optional<std::string> reasoning_parser;
};

// The server: the flags of easydel serve, with _ for -. What is null is as in esurge, else the engine's own.
struct ServeSection {
  std::string host = "127.0.0.1";
  int64_t port = 8000;
  TextList api_key;
  std::optional<std::string> tls_cert, tls_key;
  TextList cors_origin;
  TextList served_model_name;
  std::optional<std::string> chat_template;  // a file
  bool trust_request_chat_template = false;
  std::optional<std::string> allowed_local_media_path;
  TextList allowed_media_domains;
  std::optional<std::string> tool_parser;
  std::optional<std::string> reasoning_parser;
  int64_t max_connections = 4096;
  int64_t max_body_mib = 16;
  double request_timeout = 0;  // seconds, as the next
  double shutdown_timeout = 30;
  bool no_page = false;
  std::optional<int64_t> max_num_seqs;
  std::optional<int64_t> max_num_batched_tokens;
  std::optional<int64_t> max_model_len;
  int64_t max_waiting = 0;
  std::optional<double> gpu_memory_utilization;
  std::optional<int64_t> page_size;
  int64_t num_pages = 0;
  std::string kv_cache_dtype = "auto";
  std::optional<bool> no_prefix_caching;
  bool no_chunked_prefill = false;
  bool no_graphs = false;
  int64_t speculative_tokens = 0;
  bool async_scheduling = false;
  std::optional<int64_t> ngram_max, ngram_min;
  std::optional<std::string> draft_model;
  TextMap adapter;  // names and directories
  int64_t data_parallel_size = 1;
  int64_t seed = 0;
};

void list_fields(ModelSection& model, FieldVisitor& v);
void list_fields(LoaderSection& loader, FieldVisitor& v);
void list_fields(PlatformSection& platform, FieldVisitor& v);
void list_fields(QuantizationSection& quantization, FieldVisitor& v);
void list_fields(BaseConfigSection& base, FieldVisitor& v);
void list_fields(TokenizationSection& tokenization, FieldVisitor& v);
void list_fields(MixtureSection& mixture, FieldVisitor& v);  // without informs and tokenization
namespace data {
void list_fields(DatasetOptions& dataset, FieldVisitor& v);
}
void list_fields(EvalSection& eval, FieldVisitor& v);
void list_fields(EsurgeSection& esurge, FieldVisitor& v);
void list_fields(ServeSection& serve, FieldVisitor& v);

}  // namespace easydel
