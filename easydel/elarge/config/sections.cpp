#include "easydel/elarge/config/sections.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel {

template <>
struct FieldType<TextList> {
  static Json to_json(const TextList& list) {
    return list.values.size() == 1 ? Json(list.values[0]) : FieldType<std::vector<std::string>>::to_json(list.values);
  }
  static void from_json(const Json& json, TextList& list, const std::string& where) {
    if (json.is_string()) {
      list.values = {json.as_string()};
    } else if (json.is_array()) {
      FieldType<std::vector<std::string>>::from_json(json, list.values, where);
    } else if (json.is_null()) {
      list.values.clear();
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

TaskType ModelSection::task_type() const {
  if (!task) return TaskType::AutoBind;
  std::string name;
  for (const char c : *task) name += c == '_' ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
  if (name == "lm") return TaskType::CausalLM;
  static constexpr std::string_view kOthers[] = {"audio-classification",
                                                 "diffusion-language-model",
                                                 "diffusion-lm",
                                                 "image-classification",
                                                 "image-text-to-text",
                                                 "seq2seq",
                                                 "sequence-to-sequence",
                                                 "speech-seq2seq",
                                                 "speech-sequence-to-sequence",
                                                 "vision-language-model",
                                                 "vision-module",
                                                 "zero-shot-image-classification"};
  require<NotSupportedError>(std::find(std::begin(kOthers), std::end(kOthers), name) == std::end(kOthers), "\"", *task,
                             "\" is a task of EasyDeL that is not supported yet; known: auto-bind, "
                             "base-module, causal-language-model, sequence-classification.");
  return parse_task(name);
}

void list_fields(ModelSection& m, FieldVisitor& v) {
  v("name_or_path", m.name_or_path, "A directory, a model on the hub, or a config.json: then the weights are drawn.");
  v("tokenizer", m.tokenizer, "The same for the tokenizer; null: name_or_path.");
  v("task", m.task, "causal-language-model, sequence-classification, base-module; null: what the files say.");
  v("extra_kwargs", m.extra_kwargs, "revision of a model on the hub; every other key is one of the model's config.");
}

void list_fields(LoaderSection& l, FieldVisitor& v) {
  v("device", l.device, "cpu, cuda or cuda:1; null: a GPU where the build and the machine have one.");
  v("dtype", l.dtype, "What the model computes in; null: bf16 on a GPU, fp32 on a CPU.");
  v("param_dtype", l.param_dtype, "What the weights are stored in; null: fp32 with a trainer, else what dtype is.");
  v("precision", l.precision, "Of float32 products: default, fastest, high, highest.");
  v("verbose", l.verbose, "Show how loading goes on.");
}

void list_fields(PlatformSection& p, FieldVisitor& v) {
  v("backend", p.backend, "cpu or gpu: the device, where loader.device is null.");
}

void list_fields(QuantizationSection& q, FieldVisitor& v) {
  v("method", q.method, "8bit, nf4, int4 or a8q; null: as the files are.");
  v("group_size", q.group_size, "Columns that share a scale; null: the method's own.");
  v("linear_group_size", q.linear_group_size, "The same; wins over group_size.");
  v("linear_pattern", q.linear_pattern, "Layers whose path it is found in; null: all linear layers but heads.");
  v("apply_quantization", q.apply_quantization, "false: everything is checked, and weights stay dense.");
  v("kv_cache", q.kv_cache, "{dtype: int8}: keys and values of generation in 8 bits.");
  v("model", q.model, "The same as a mapping: dtype or quantization_method, group_size or block_size, pattern.");
}

void list_fields(ShardingSection& s, FieldVisitor& v) {
  v("axis_dims", s.axis_dims, "Devices along each axis; one may be -1: all that are left.");
  v("axis_names", s.axis_names, "Names of the axes.");
  v("dcn_axis_dims", s.dcn_axis_dims, "How often each axis is repeated over the outer network.");
  v("partition_axis", s.partition_axis, "Which axes carry the batch, the sequence, heads, …");
  v("auto_shard_model", s.auto_shard_model, "Split the weights.");
  v("zero_stage", s.zero_stage,
    "ZeRO: 1 splits the optimizer's state over the data axes, 2 gradients too, 3 parameters too; null: as the rules "
    "are.");
  v("fsdp_is_ep_bound", s.fsdp_is_ep_bound, "Split experts over fsdp together with ep.");
  v("sp_is_ep_bound", s.sp_is_ep_bound, "Split experts over sp together with ep.");
}

void list_fields(BaseConfigSection& b, FieldVisitor& v) {
  v("values", b.values, "Keys of the model's config.");
  v("operation_configs", b.operation_configs, "Settings of EasyDeL's kernels; they have no effect here.");
}

void list_fields(InformSection& i, FieldVisitor& v) {
  v("type", i.type, "json, csv, parquet, …, or the id of a data set on the hub.");
  v("dataset_name", i.dataset_name, "The id of a data set on the hub.");
  v("data_files", i.data_files, "Files, directories, globs.");
  v("name", i.name, "What mixture_weights calls it.");
  v("dataset_split_name", i.dataset_split_name, "A split or a subdirectory.");
  v("split", i.split, "The split: train, or a part of it, train[:1000].");
  v("revision", i.revision, "Of a data set on the hub.");
  v("sample_by", i.sample_by, "Of text files: line or document.");
  v("content_field", i.content_field, "The column that holds the text.");
  v("additional_fields", i.additional_fields, "Other columns that are kept.");
  v("format_fields", i.format_fields, "New names of columns.");
  v("filter_query", i.filter_query, "A condition on rows.");
  v("num_rows", i.num_rows, "Rows at most.");
  v("weight", i.weight, "Its share, when mixture_weights does not name it.");
}

void list_fields(TokenizationSection& t, FieldVisitor& v) {
  v("tokenizer", t.tokenizer, "Another tokenizer than the model's; checkpoints get it.");
  v("max_length", t.max_length, "Tokens of a row at most; null: the trainer's max_length.");
  v("padding", t.padding, "max_length: batches are as wide as that; otherwise as their longest row.");
  v("add_special_tokens", t.add_special_tokens, "Null: the trainer's add_special_tokens.");
  v("text_field", t.text_field, "The column that is tokenized; null: the trainer's dataset_text_field.");
}

void list_fields(MixtureSection& m, FieldVisitor& v) {
  v("cache_dir", m.cache_dir, "Where what was decompressed is kept, with streaming: false.");
  v("streaming", m.streaming, "Read large compressed files in order; false: decompress them once.");
  v("text_target_field", m.text_target_field, "What content_field is called later, and what the trainer reads.");
  v("shuffle_buffer_size", m.shuffle_buffer_size, "Rows that are shuffled at once; null: no shuffling.");
  v("seed", m.seed, "Of the order of rows; null: the trainer's shuffle_seed_train.");
  v("pack_tokens", m.pack_tokens, "Put several texts into one sequence, as trainer.packing does.");
  v("tokens_field_name", m.tokens_field_name, "The column of rows that come with token ids.");
  v("pack_seq_length", m.pack_seq_length, "Tokens of such a sequence; null: the trainer's max_length.");
  v("prefetch_workers", m.prefetch_workers,
    "Threads that prepare rows ahead; 0: none; null: the trainer's dataloader_num_workers, else two.");
  v("prefetch_buffer_size", m.prefetch_buffer_size, "Rows that are kept ready for each row of the batch; 0: none.");
  v("block_mixture", m.block_mixture, "Mix by blocks whose shares are exact; false: the data sets take turns.");
  v("mixture_block_size", m.mixture_block_size, "Rows of such a block.");
  v("stop_strategy", m.stop_strategy, "restart, longest, all_exhausted or first_exhausted.");
  v("mixture_weights", m.mixture_weights, "The share of each data set, by name.");
}

void list_fields(EvalSection& e, FieldVisitor& v) {
  v("num_fewshot", e.num_fewshot, "Examples before each question; null: the task's.");
  v("batch_size", e.batch_size, "Rows at a time; null and auto: by their length.");
  v("limit", e.limit, "Rows of each task at most; below 1: their share.");
  v("system_instruction", e.system_instruction, "A text before each prompt.");
  v("use_tqdm", e.use_tqdm, "Show how it goes on.");
  v("include_path", e.include_path, "Directories with task files.");
  v("bootstrap_iters", e.bootstrap_iters, "Draws for the standard error of a perplexity; 0: no standard errors.");
  v("fewshot_random_seed", e.fewshot_random_seed, "Of the examples before a question.");
}

}  // namespace easydel
