// TrainingArguments from and to JSON, and the handling of EasyDeL's other keys.
#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/infra/fields/field_visitor.h"
#include "easydel/trainers/arguments/number_fields.h"
#include "easydel/trainers/arguments/training_arguments.h"

namespace easydel {
namespace {

using Names = std::initializer_list<std::string_view>;

bool among(std::string_view key, Names names) { return std::find(names.begin(), names.end(), key) != names.end(); }

bool begins(std::string_view text, std::string_view beginning) { return text.substr(0, beginning.size()) == beginning; }

// "dpo, orpo" for "beta".
std::string trainers_with(const std::string& key) {
  std::string found;
  for (const std::string& type : trainer_types()) {
    TrainingArguments arguments;
    for (const FieldValue& field : collect_fields([&](FieldVisitor& v) { list_fields(arguments, type, v); })) {
      if (field.key == key) found += (found.empty() ? "" : ", ") + type;
    }
  }
  return found;
}

// Whether a value of an unsupported key matches the behaviour here.
bool asks_for_nothing(const std::string& key, const Json& value) {
  if (key == "init_tx") return value == Json(true);
  if (value.is_array() || value.is_object()) return value.size() == 0;
  return value.is_null() || value == Json(false) || value == Json("");
}

}  // namespace

KeySupport key_support(std::string_view key) {
  // Specific to JAX, TPUs, services or another implementation: the run is the same without them.
  if (among(key, {"auto_shard_states",
                  "backend",
                  "dataloader_pin_memory",
                  "generation_shard_inputs",
                  "grain_shard_count",
                  "grain_shard_index",
                  "is_fine_tuning",
                  "jax_distributed_config",
                  "log_all_workers",
                  "log_training_generations_to_wandb",
                  "low_mem_usage",
                  "merge_lora_before_tpu_preemption_save",
                  "metrics_to_show_in_rich_pbar",
                  "model_parameters",
                  "num_of_sequences",
                  "offload_dataset",
                  "offload_device_index",
                  "offload_device_type",
                  "process_zero_is_admin",
                  "save_tpu_preemption_checkpoints",
                  "sparse_module_type",
                  "step_partition_spec",
                  "trainer_config_class",
                  "use_esurge_generation",
                  "use_grain",
                  "weight_distribution_log_steps",
                  "weight_distribution_pattern"}) ||
      begins(key, "esurge_")) {
    return KeySupport::Ignored;
  }
  if (among(key, {"benchmark_interval",
                  "benchmarks",
                  "chat_template_kwargs",
                  "custom_scheduler",
                  "dataset_kwargs",
                  "generate_during_eval",
                  "generation_config_overrides",
                  "generation_extra_kwargs",
                  "generation_frequency_penalty",
                  "generation_kwargs",
                  "generation_presence_penalty",
                  "init_tx",
                  "is_encoder_decoder",
                  "model_init_kwargs",
                  "pruning_module",
                  "quantization_bits",
                  "quantization_block",
                  "quantization_group_size",
                  "quantization_mode",
                  "ref_model_init_kwargs",
                  "skip_apply_chat_template",
                  "remove_ckpt_after_load",
                  "sparsify_module",
                  "state_apply_fn_kwarguments_to_model",
                  "straight_through_emulator",
                  "tensor_straight_through",
                  "tools",
                  "watchers"})) {
    return KeySupport::NotYet;
  }
  return KeySupport::None;
}

TrainingArguments TrainingArguments::from_json(std::string_view type, const Json& json, const KeyPlace& place) {
  const KeyPlace where = place ? place : [](std::string_view key) { return concat("[TrainingArguments] ", key); };
  TrainingArguments arguments = for_trainer(type);
  require<ConfigError>(json.is_object(), "[TrainingArguments] the arguments must be an object; got ", json.type_name(),
                       ".");
  const FieldList fields = [&](FieldVisitor& v) { list_fields(arguments, type, v); };
  const std::vector<FieldValue> described = collect_fields(fields);
  Json values = with_numbers(json, described);
  std::vector<std::string> known;
  for (const FieldValue& field : described) {
    known.push_back(field.key);
    known.insert(known.end(), field.aliases.begin(), field.aliases.end());
    for (const std::string& alias : field.aliases) {
      if (!json.contains(field.key) || !json.contains(alias)) continue;
      require<ConfigError>(json.at(field.key) == json.at(alias), where(alias), " is an alias of ", field.key,
                           ", which has a different value; got ", json.at(alias).dump(), " and ",
                           json.at(field.key).dump(), ".");
    }
  }
  for (const auto& [key, value] : json.as_object()) {
    if (key == "trainer_type" || std::find(known.begin(), known.end(), key) != known.end()) continue;
    switch (key_support(key)) {
      case KeySupport::Ignored: arguments.ignored_keys.push_back(key); continue;
      case KeySupport::NotYet:
        if (asks_for_nothing(key, value)) continue;
        fail<NotSupportedError>(where(key), " is an EasyDeL key that is not supported yet; got ", value.dump(),
                                ". Remove it.");
      case KeySupport::None: break;
    }
    const std::string others = trainers_with(key), near = nearest_name(key, known);
    fail<ConfigError>(where(key), " is not a key of the trainer \"", type, "\"", others.empty() ? "" : ", only of ",
                      others, ".", near.empty() || !others.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
  }
  if (const Json* track = values.find("track_memory"); track && track->is_bool()) {
    values["track_memory"] = track->as_bool() ? 1.0 : 0.0;
  }
  if (const Json* page = values.find("dashboard"); page && page->is_bool())
    values["dashboard"] = page->as_bool() ? Json(kDashboardPort) : Json();
  if (const Json* trackers = values.find("report_to"); trackers && trackers->is_string())
    values["report_to"] = Json::array({*trackers});
  read_fields(fields, values, where);
  if (arguments.extra_optimizer_kwargs.is_null()) arguments.extra_optimizer_kwargs = Json::object();
  arguments.validate_for(type, where);
  return arguments;
}

Json TrainingArguments::to_json(std::string_view type) const {
  TrainingArguments copy = *this;
  Json json = Json::object();
  for (FieldValue& field : collect_fields([&](FieldVisitor& v) { list_fields(copy, type, v); })) {
    json[field.key] = std::move(field.value);
  }
  return json;
}

// Our keys unchanged; EasyDeL's others only if they match the behaviour here.
LossConfig TrainingArguments::loss() const {
  Json ours = Json::object();
  require<ConfigError>(loss_config.is_null() || loss_config.is_object(),
                       "[TrainingArguments] loss_config must be an object or null; got ", loss_config.type_name(), ".");
  const auto refuse = [](std::string_view key, const Json& value, std::string_view only) {
    fail<NotSupportedError>("[TrainingArguments] loss_config.", key, " must be ", only, "; got ", value.dump(), ".");
  };
  const Json given = loss_config.is_null() ? Json::object() : loss_config;
  for (const auto& [key, value] : given.as_object()) {
    if (key == "chunk_token_size") {
      ours["chunk_size"] = value.is_null() ? Json(0) : value;
    } else if (key == "classification_problem_type") {
      ours["problem_type"] = value;
    } else if (key == "reduction" && value.is_null()) {
      continue;
    } else if (key == "loss_normalizing_factor") {
      if (value.is_string() && among(value.as_string(), {"NUM_REAL_TARGET_TOKENS", "NO_WEIGHT_NUM_REAL_TARGET_TOKENS"}))
        continue;
      refuse(key, value, "NUM_REAL_TARGET_TOKENS");
    } else if (key == "divide_weight_sum") {
      if (!(value == Json(false))) refuse(key, value, "false");
    } else if (key == "compute_dtype") {
      if (!value.is_null() && !(value == Json("fp32"))) refuse(key, value, "fp32");
    } else if (key == "break_on_nan") {
      if (!value.is_null() && !(value == Json(true))) refuse(key, value, "true: use max_skipped_steps to allow some");
    } else if (among(key, {"chunk_vocab_size", "chunk_block_size"})) {
      if (!value.is_null()) refuse(key, value, "null: use chunk_token_size to limit the logits held at once");
    } else if (among(key, {"num_labels", "num_classification_labels"})) {
      if (!value.is_null()) refuse(key, value, "null: the model's config sets the number of labels");
    } else {
      ours[key] = value;
    }
  }
  if (lmhead_chunksize && !ours.contains("chunk_size")) ours["chunk_size"] = *lmhead_chunksize;
  return LossConfig{}.with(ours);
}

}  // namespace easydel
