#include "easydel/elarge/config/sections.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel {

template <>
struct FieldType<TextList> {
  static Json to_json(const TextList& list) {
    return list.size() == 1 ? Json(list[0]) : FieldType<std::vector<std::string>>::to_json(list);
  }
  static void from_json(const Json& json, TextList& list, const std::string& where) {
    if (json.is_string()) {
      list = {json.as_string()};
    } else if (json.is_array()) {
      FieldType<std::vector<std::string>>::from_json(json, list, where);
    } else if (json.is_null()) {
      list.clear();
    } else {
      wrong_type(where, name(), json);
    }
  }
  static std::string name() { return "a string, a list of strings or null"; }
  static std::string plural() { return "lists of strings"; }
};

template <class T>
struct FieldType<std::map<std::string, T>> {
  static Json to_json(const std::map<std::string, T>& map) {
    Json json = Json::object();
    for (const auto& [key, value] : map) json[key] = FieldType<T>::to_json(value);
    return json;
  }
  static void from_json(const Json& json, std::map<std::string, T>& map, const std::string& where) {
    map.clear();
    if (json.is_null()) return;
    if (!json.is_object()) wrong_type(where, name(), json);
    for (const auto& [key, value] : json.as_object()) FieldType<T>::from_json(value, map[key], where + "." + key);
  }
  static std::string name() { return "an object from names to " + FieldType<T>::plural(); }
  static std::string plural() { return "objects"; }
};

std::string ModelSection::revision() const {
  const Json* given = extra_kwargs.find("revision");
  return given ? given->as_string() : "main";
}

TaskType ModelSection::task_type() const {
  if (!task) return TaskType::AutoBind;
  std::string name;
  for (const char c : *task) name += c == '_' ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
  if (name == "lm") return TaskType::CausalLM;
  if (name == "speech-seq2seq") return TaskType::SpeechSequenceToSequence;
  if (name == "vision-language-model") return TaskType::ImageTextToText;
  static constexpr std::string_view kOthers[] = {"audio-classification", "diffusion-language-model", "diffusion-lm",
                                                 "vision-module"};
  require<NotSupportedError>(std::find(std::begin(kOthers), std::end(kOthers), name) == std::end(kOthers), "\"", *task,
                             "\" is a task of EasyDeL that is not supported yet; known: auto-bind, "
                             "base-module, causal-language-model, sequence-classification, sequence-to-sequence, "
                             "speech-sequence-to-sequence, image-text-to-text, image-classification, "
                             "zero-shot-image-classification.");
  return parse_task(name);
}

void list_fields(ModelSection& m, FieldVisitor& v) {
  v("name_or_path", m.name_or_path, "A directory, a model on the hub, or a config.json to start from random weights.");
  v("tokenizer", m.tokenizer, "Likewise for the tokenizer; null: name_or_path.");
  v("task", m.task,
    "causal-language-model, sequence-classification, sequence-to-sequence, speech-sequence-to-sequence, "
    "image-text-to-text, image-classification, zero-shot-image-classification, base-module; null: determined by the "
    "trainer and the model's type.");
  v("extra_kwargs", m.extra_kwargs, "revision of a model on the hub; all other keys are passed to the model's config.");
}

void list_fields(LoaderSection& l, FieldVisitor& v) {
  v("device", l.device, "cpu, cuda or cuda:1; null: a GPU if available.");
  v("dtype", l.dtype, "Compute dtype; null: bf16 on a GPU, fp32 on a CPU.");
  v("param_dtype", l.param_dtype, "Dtype of the stored weights; null: fp32 with a trainer, otherwise dtype.");
  v("precision", l.precision, "Precision of float32 matrix products: default, fastest, high, highest.");
  v("verbose", l.verbose, "Show the progress of loading.");
}

void list_fields(PlatformSection& p, FieldVisitor& v) {
  v("backend", p.backend, "cpu or gpu: used if loader.device is null.");
}

// EasyDeL's names; those of the mapping `model` are QuantizeOptions' own.
void list_fields(QuantizationSection& q, FieldVisitor& v) {
  v.only_when_changed();
  v("method", q.weights.method, "8bit, nf4, int4 or a8q; empty: no quantization while loading.");
  v("group_size", q.weights.group_size,
    "Quantization group size: columns that share a scale; 0: the method's default.");
  v("linear_group_size", q.weights.group_size, "Same as group_size; takes precedence over it.");
  v("linear_pattern", q.weights.pattern,
    "Regular expression for the paths of layers to quantize; empty: all linear layers except heads.");
  v("apply_quantization", q.weights.quantize_tensors, "false: check the settings but keep the weights dense.");
  v("kv_cache", q.kv_cache, "{dtype: int8}: 8-bit keys and values in generation.");
  v("model", q.model,
    "The same settings as a mapping: dtype or quantization_method, group_size or block_size, pattern.");
}

void list_fields(BaseConfigSection& b, FieldVisitor& v) {
  v("values", b.values, "Keys of the model's config.");
  v("operation_configs", b.operation_configs, "Settings of EasyDeL's kernels; no effect here.");
}

void list_fields(TokenizationSection& t, FieldVisitor& v) {
  v("tokenizer", t.tokenizer, "A tokenizer other than the model's; it is saved in checkpoints.");
  v("max_length", t.max_length, "Maximum number of tokens per row; null: the trainer's max_length.");
  v("padding", t.padding, "max_length: pad to max_length; otherwise to the longest row of the batch.");
  v("add_special_tokens", t.add_special_tokens,
    "Whether to add special tokens; null: the trainer's add_special_tokens.");
  v("text_field", t.text_field, "The column to tokenize; null: the trainer's dataset_text_field.");
}

void list_fields(MixtureSection& m, FieldVisitor& v) {
  v("streaming", m.streaming, "Read large compressed files in order; false: decompress them once.");
  v("text_target_field", m.text_target_field, "Column of the trainer's input, to which content_field is renamed.");
  v("shuffle_buffer_size", m.shuffle_buffer_size, "Rows per shuffling window; null: no shuffling.");
  v("seed", m.shuffle_seed, "Seed of the row order; null: the trainer's shuffle_seed_train.");
  v("pack_tokens", m.pack_tokens, "Pack several texts into one sequence, as trainer.packing does.");
  v("tokens_field_name", m.tokens_field_name, "The column of token ids, for tokenized data.");
  v("pack_seq_length", m.pack_seq_length, "Tokens per packed sequence; null: the trainer's max_length.");
  v("prefetch_workers", m.prefetch_workers,
    "Threads that prefetch rows; 0: none; null: the trainer's dataloader_num_workers, otherwise two.");
  v("prefetch_buffer_size", m.prefetch_buffer_size, "Rows prefetched for each row of the batch; 0: none.");
  v("block_mixture", m.block_mixture, "Mix in blocks with exact proportions; false: alternate between the data sets.");
  v("mixture_block_size", m.mixture_block_size, "Rows per mixture block.");
  v("stop_strategy", m.stop_strategy, "restart, longest, all_exhausted or first_exhausted.");
  v("mixture_weights", m.mixture_weights, "The weight of each data set, by name.");
  v.only_when_changed();
  v("cache_dir", m.cache_dir, "Directory for decompressed files, with streaming: false.");
}

void list_fields(EvalSection& e, FieldVisitor& v) {
  v("num_fewshot", e.num_fewshot, "Few-shot examples before each question; null: the task's.");
  v("batch_size", e.batch_size, "Rows per batch; null or auto: automatic, by their length.");
  v("limit", e.limit, "Maximum number of rows per task; below 1: a fraction of them.");
  v("system_instruction", e.system_instruction, "Text placed before each prompt, or the system message.");
  v("use_tqdm", e.use_tqdm, "Show a progress bar.");
  v("include_path", e.include_path, "Directories with task files.");
  v("bootstrap_iters", e.bootstrap_iters,
    "Bootstrap samples for the standard error of a perplexity; 0: no standard errors.");
  v("fewshot_random_seed", e.fewshot_random_seed, "Seed for drawing the few-shot examples.");
  v("apply_chat_template", e.apply_chat_template, "Format prompts with the model's chat template.");
  v("chat_template_args", e.chat_template_args, "Variables of the chat template: {enable_thinking: false}.");
  v("fewshot_as_multiturn", e.fewshot_as_multiturn,
    "With apply_chat_template: few-shot examples are separate messages.");
  v("gen_kwargs", e.gen_kwargs, "Override generation_kwargs of the tasks: {temperature: 0.7, max_gen_toks: 64}.");
  v("confirm_run_unsafe_code", e.confirm_run_unsafe_code, "Allow tasks that run model-generated code.");
  v("code_eval_timeout", e.code_eval_timeout, "Time limit for such code in seconds; null: 3.");
}

void list_fields(EsurgeSection& e, FieldVisitor& v) {
  v("max_model_len", e.max_model_len,
    "Maximum length of a prompt and its answer in tokens; null: the model's context.");
  v("max_num_seqs", e.max_num_seqs, "Maximum number of concurrent sequences; null: 256.");
  v("max_num_batched_tokens", e.max_num_batched_tokens,
    "Maximum number of tokens per step; null: 8192 on a GPU, 512 on a CPU.");
  v("page_size", e.page_size, "Tokens per page of the KV cache; null: 16.");
  v("hbm_utilization", e.hbm_utilization, "Fraction of the free memory to use for the KV cache; null: 0.9.");
  v("enable_prefix_caching", e.enable_prefix_caching, "Reuse the KV cache of common prompt prefixes; null: true.");
  v("tool_parser", e.tool_parser, "Format of tool calls, for the action serve; null: detected from the chat template.");
  v("reasoning_parser", e.reasoning_parser,
    "Format of reasoning, for the action serve; null: detected from the chat template.");
}

void list_fields(ServeSection& s, FieldVisitor& v) {
  v("host", s.host, "Address to listen on; 0.0.0.0: all interfaces.");
  v("port", s.port, "Port to listen on; 0: any free port.");
  v("api_key", s.api_key, "API keys, one of which requests must send; EASYDEL_API_KEY adds one.");
  v("tls_cert", s.tls_cert, "Certificate chain for HTTPS (PEM file).");
  v("tls_key", s.tls_key, "Private key of the certificate (PEM file).");
  v("cors_origin", s.cors_origin, "Allowed CORS origins; *: any origin.");
  v("served_model_name", s.served_model_name, "Names of the model in the API; null: model.name_or_path.");
  v("chat_template", s.chat_template, "File with a chat template to use instead of the model's.");
  v("trust_request_chat_template", s.trust_request_chat_template, "Let requests supply their own chat template.");
  v("allowed_local_media_path", s.allowed_local_media_path,
    "Directory whose files requests may use as images, with file:// URLs; null: data URIs only.");
  v("allowed_media_domains", s.allowed_media_domains,
    "Hosts from which requests may have images fetched, with http and https URLs; *: any host with a public address.");
  v("tool_parser", s.tool_parser,
    "Format of tool calls; null: esurge.tool_parser, else detected from the chat template.");
  v("reasoning_parser", s.reasoning_parser,
    "Format of reasoning; null: esurge.reasoning_parser, else detected from the chat template.");
  v("max_connections", s.max_connections, "Maximum number of connections.");
  v("max_body_mib", s.max_body_mib, "Maximum size of a request in MiB.");
  v("request_timeout", s.request_timeout, "Maximum time for an answer in seconds; 0: unlimited.");
  v("shutdown_timeout", s.shutdown_timeout, "Seconds that running requests have to finish after SIGTERM or Ctrl-C.");
  v("no_page", s.no_page, "Do not serve the chat page and the dashboard.");
  v("max_num_seqs", s.max_num_seqs, "Maximum number of concurrent sequences; null: esurge.max_num_seqs, else 256.");
  v("max_num_batched_tokens", s.max_num_batched_tokens,
    "Maximum number of tokens per step; null: esurge.max_num_batched_tokens, else 8192 on a GPU, 512 on a CPU.");
  v("max_model_len", s.max_model_len,
    "Maximum length of a prompt and its answer in tokens; null: esurge.max_model_len, else the model's context.");
  v("max_waiting", s.max_waiting, "Maximum number of waiting requests; further ones get status 429. 0: unlimited.");
  v("gpu_memory_utilization", s.gpu_memory_utilization,
    "Fraction of the free memory to use for the KV cache; null: esurge.hbm_utilization, else 0.9.");
  v("page_size", s.page_size, "Tokens per page of the KV cache; null: esurge.page_size, else 16.");
  v("num_pages", s.num_pages, "Number of pages of the KV cache; 0: as gpu_memory_utilization allows.");
  v("kv_cache_dtype", s.kv_cache_dtype, "Dtype of the KV cache: auto, int8, fp8, bf16, …");
  v("no_prefix_caching", s.no_prefix_caching,
    "Disable prefix caching; null: the opposite of esurge.enable_prefix_caching, else false.");
  v("no_chunked_prefill", s.no_chunked_prefill, "Disable chunked prefill: process a prompt in one step if it fits.");
  v("no_graphs", s.no_graphs, "Disable CUDA graphs for decode steps.");
  v("async_scheduling", s.async_scheduling, "Schedule each step before the tokens of the previous one are known.");
  v("speculative_tokens", s.speculative_tokens,
    "Speculative decoding: number of draft tokens, by n-gram lookup or draft_model; 0: none, or 4 with draft_model.");
  v("ngram_max", s.ngram_max, "Longest n-gram to look up in n-gram speculation, in tokens; null: 4.");
  v("ngram_min", s.ngram_min, "Shortest n-gram to look up in n-gram speculation, in tokens; null: 1.");
  v("draft_model", s.draft_model, "Draft model for speculative decoding, with the same vocabulary.");
  v("adapter", s.adapter, "LoRA adapters that requests select by using their name as the model: {name: directory}.");
  v("data_parallel_size", s.data_parallel_size,
    "Number of engines that share the requests, each with its own KV cache.");
  v("seed", s.seed, "Random seed of requests without one.");
}

namespace data {

void list_fields(DatasetOptions& i, FieldVisitor& v) {
  v.only_when_changed();
  v("type", i.type, "json, csv, parquet, …, or the id of a data set on the hub.");
  v("dataset_name", i.dataset_name, "The id of a data set on the hub.");
  v("data_files", i.data_files, "Files, directories, globs.");
  v("name", i.name, "Name of the data set in mixture_weights.");
  v("dataset_split_name", i.dataset_split_name, "A split or a subdirectory.");
  v("split", i.split, "The split: train, or a part of it, train[:1000].");
  v("revision", i.revision, "Revision of a data set on the hub.");
  v("sample_by", i.sample_by, "For text files: line or document.");
  v("content_field", i.content_field, "The column that contains the text.");
  v("additional_fields", i.additional_fields, "Other columns to keep.");
  v("format_fields", i.format_fields, "Columns to rename: old name to new name.");
  v("filter_query", i.filter_query, "Keep only rows that satisfy this Jinja expression.");
  v("num_rows", i.num_rows, "Maximum number of rows.");
  v("weight", i.weight, "Weight of the data set, if mixture_weights does not contain it.");
}

}  // namespace data

}  // namespace easydel
