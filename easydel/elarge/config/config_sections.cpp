// The sections of an ELargeConfig, read and checked.
#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/elarge/config/elarge_config.h"
#include "easydel/elarge/config/section_keys.h"
#include "easydel/infra/fields/field_visitor.h"
#include "easydel/sharding/mesh/mesh.h"
#include "easydel/trainers/arguments/number_fields.h"

namespace easydel {
void ELargeConfig::check_keys(const YamlPath& path, const std::vector<std::string>& known, const Tables& tables) const {
  for (const auto& [key, value] : find(path)->as_object()) {
    const OtherKey* other = nullptr;
    std::vector<std::string> all = known;
    for (const std::string_view table : tables) {
      if (!other) other = other_key(table, key);
      for (const OtherKey& one : other_keys(table)) all.emplace_back(one.name);
    }
    if (other) {
      require<NotSupportedError>(other->accepts(value), where(below(path, key)), " is not supported; got ",
                                 value.dump(), ". ", other->says);
    } else if (std::find(known.begin(), known.end(), key) == known.end()) {
      const std::string near = nearest_name(key, all);
      fail<ConfigError>(where(below(path, key)), " is not a key of the section ", dotted(path), ".",
                        near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
    }
  }
}

void ELargeConfig::read_section(const YamlPath& path, const Tables& tables, const std::vector<std::string>& nested,
                                const FieldList& fields) const {
  const Json* json = find(path);
  if (!json) return;
  require<ConfigError>(json->is_object(), where(path), " must be a mapping; got ", json->dump(), ".");
  const std::vector<FieldValue> described = collect_fields(fields);
  std::vector<std::string> known = nested;
  for (const FieldValue& field : described) known.push_back(field.key);
  check_keys(path, known, tables);
  Json values = with_numbers(*json, described);
  for (const std::string_view table : tables) {
    for (const OtherKey& other : other_keys(table)) values.as_object().erase(other.name);
  }
  read_fields(fields, values, [&](std::string_view key) { return where(below(path, key)); });
}

std::optional<ModelSection> ELargeConfig::read_model(const std::string& name) const {
  if (!has(name)) return std::nullopt;
  ModelSection section = read<ModelSection>({name}, {});
  require<ConfigError>(!section.name_or_path.empty(), where({name, "name_or_path"}),
                       " must name a directory or a model on the hub.");
  if (section.extra_kwargs.is_null()) section.extra_kwargs = Json::object();
  require<ConfigError>(section.extra_kwargs.is_object(), where({name, "extra_kwargs"}), " must be a mapping; got ",
                       section.extra_kwargs.dump(), ".");
  const YamlPath extra{name, "extra_kwargs"};
  for (const auto& [key, value] : section.extra_kwargs.as_object()) {
    const OtherKey* other = other_key("model.extra_kwargs", key);
    require<NotSupportedError>(!other || other->accepts(value), where(below(extra, key)), " is not supported; got ",
                               value.dump(), ". ", other ? other->says : "");
    require<ConfigError>(key != "revision" || value.is_string(), where(below(extra, key)), " must be a string; got ",
                         value.dump(), ".");
  }
  located({}, {name, "task"}, [&] { section.task_type(); });
  return section;
}

ModelSection ELargeConfig::model() const {
  const std::optional<ModelSection> section = read_model("model");
  require<ConfigError>(section.has_value(), where({"model", "name_or_path"}),
                       " must name a directory or a model on the hub.");
  return *section;
}

std::optional<ModelSection> ELargeConfig::teacher_model() const { return read_model("teacher_model"); }
std::optional<ModelSection> ELargeConfig::reference_model() const { return read_model("reference_model"); }
std::optional<ModelSection> ELargeConfig::reward_model() const { return read_model("reward_model"); }
std::optional<ModelSection> ELargeConfig::value_model() const { return read_model("value_model"); }

LoaderSection ELargeConfig::loader() const {
  LoaderSection section = read<LoaderSection>({"loader"}, {"loader"});
  for (const auto& [key, dtype] : {std::pair("dtype", section.dtype), std::pair("param_dtype", section.param_dtype)}) {
    require<ConfigError>(!dtype || at::isFloatingType(*dtype), where({"loader", key}),
                         " must be a floating-point dtype; got ", dtype ? dtype_name(*dtype) : "", ".");
  }
  if (section.precision) {
    std::string lower;
    for (const char c : *section.precision) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    require<ConfigError>(lower == "default" || lower == "fastest" || lower == "high" || lower == "highest",
                         where({"loader", "precision"}), " must be one of default, fastest, high, highest; got \"",
                         *section.precision, "\".");
    section.precision = lower;
  }
  return section;
}

PlatformSection ELargeConfig::platform() const {
  const PlatformSection section = read<PlatformSection>({"platform"}, {"platform"});
  const std::string backend = section.backend.value_or("cpu");
  require<ConfigError>(backend == "cpu" || backend == "gpu", where({"platform", "backend"}),
                       " must be cpu or gpu; got \"", backend, "\".");
  return section;
}

ComputeSettings ELargeConfig::compute() const {
  const LoaderSection given = loader();
  ComputeOptions options{.dtype = given.dtype, .param_dtype = given.param_dtype, .is_training = has("trainer")};
  const std::optional<std::string> backend = platform().backend;
  if (given.device) located({}, {"loader", "device"}, [&] { options.device = parse_device(*given.device); });
  if (!backend) return compute_settings(options);
  std::optional<at::Device> asked;
  located({}, {"platform", "backend"}, [&] { asked = parse_device(*backend); });
  require<ConfigError>(!options.device || options.device->type() == asked->type(), where({"platform", "backend"}),
                       " must be the kind of loader.device; got \"", *backend, "\" and \"", given.device.value_or(""),
                       "\". Remove one of them.");
  if (!options.device) options.device = asked;
  return compute_settings(options);
}

QuantizationSection ELargeConfig::quantization() const {
  QuantizationSection section = read<QuantizationSection>({"quantization"}, {"quantization"});
  const YamlPath cache{"quantization", "kv_cache"}, path{"quantization", "model"};
  require<ConfigError>(section.kv_cache.is_null() || section.kv_cache.is_object(), where(cache),
                       " must be a mapping; got ", section.kv_cache.dump(), ".");
  for (const auto& [key, value] : section.kv_cache.is_null() ? JsonObject() : section.kv_cache.as_object()) {
    const bool is_method = key == "dtype" || key == "quantization_method" || key == "method";
    require<ConfigError>(is_method, where(below(cache, key)), " is not a key of ", dotted(cache),
                         ", which has only dtype; every head has its own scale. Remove it.");
    require<NotSupportedError>(value == Json("int8") || value == Json("8bit"), where(below(cache, key)),
                               " must be int8 or 8bit; got ", value.dump(), ".");
  }
  if (!section.model.is_null()) {
    require<ConfigError>(section.model.is_object(), where(path), " must be a mapping; got ", section.model.dump(), ".");
    read_mapping(section.weights, section.model, [&](std::string_view key) { return where(below(path, key)); });
  }
  for (const char* key : {"group_size", "linear_group_size", "linear_pattern"}) {
    require<ConfigError>(
        !find({"quantization", key}) || !section.weights.method.empty() || !section.weights.quantize_tensors,
        where({"quantization", key}), " needs quantization.method.");
  }
  return section;
}

ShardingSection ELargeConfig::sharding() const {
  const ShardingSection section = read<ShardingSection>({"sharding"}, {"sharding"});
  located({{"sharding"}}, {"sharding"}, [&] {
    normalize(
        {.axis_dims = section.axis_dims, .axis_names = section.axis_names, .dcn_axis_dims = section.dcn_axis_dims});
  });
  if (section.zero_stage) {
    const std::string place = where({"sharding", "zero_stage"});
    require<ConfigError>(*section.zero_stage >= 1 && *section.zero_stage <= 3, place, " must be 1, 2 or 3; got ",
                         *section.zero_stage, ".");
    require<ConfigError>(section.auto_shard_model.value_or(true), place,
                         " is not supported with auto_shard_model: false; got ", *section.zero_stage,
                         ". Leave auto_shard_model out.");
  }
  return section;
}

BaseConfigSection ELargeConfig::base_config() const {
  BaseConfigSection section = read<BaseConfigSection>({"base_config"}, {});
  for (const auto& [key, value] :
       {std::pair("values", &section.values), {"operation_configs", &section.operation_configs}}) {
    if (value->is_null()) *value = Json::object();
    require<ConfigError>(value->is_object(), where({"base_config", key}), " must be a mapping; got ", value->dump(),
                         ".");
  }
  for (const auto& [key, value] : section.values.as_object()) {
    const OtherKey* other = other_key("base_config.values", key);
    require<NotSupportedError>(!other || other->accepts(value), where({"base_config", "values", key}),
                               " is not supported; got ", value.dump(), ". ", other ? other->says : "");
  }
  return section;
}

Json ELargeConfig::config_kwargs() const {
  Json kwargs = config_changes(sharding());
  if (!quantization().kv_cache.is_null()) kwargs["kv_cache_quantization_config"] = Json::object({{"dtype", "int8"}});
  const BaseConfigSection base = base_config();
  for (const auto& [key, value] : base.values.as_object()) {
    if (!other_key("base_config.values", key)) kwargs[key] = value;
  }
  return kwargs;
}

Json ELargeConfig::config_kwargs(const ModelSection& model) const {
  Json kwargs = config_kwargs();
  for (const auto& [key, value] : model.extra_kwargs.as_object()) {
    if (key != "revision" && !other_key("model.extra_kwargs", key)) kwargs[key] = value;
  }
  return kwargs;
}

EvalSection ELargeConfig::eval() const {
  EvalSection section = read<EvalSection>({"eval"}, {"eval"});
  const auto where = [&](const char* key) { return this->where({"eval", key}); };
  for (const auto& [key, value] :
       {std::pair("gen_kwargs", &section.gen_kwargs), {"chat_template_args", &section.chat_template_args}}) {
    if (value->is_null()) *value = Json::object();
    require<ConfigError>(value->is_object(), where(key), " must be a mapping; got ", value->dump(), ".");
  }
  require<ConfigError>(!section.code_eval_timeout || *section.code_eval_timeout > 0, where("code_eval_timeout"),
                       " must be above 0; got ", section.code_eval_timeout.value_or(0), ".");
  require<ConfigError>(section.num_fewshot.value_or(0) >= 0, where("num_fewshot"), " must not be negative; got ",
                       section.num_fewshot.value_or(0), ".");
  require<ConfigError>(section.fewshot_random_seed >= 0, where("fewshot_random_seed"), " must not be negative; got ",
                       section.fewshot_random_seed, ".");
  require<ConfigError>(!section.limit || (*section.limit > 0 && std::isfinite(*section.limit)), where("limit"),
                       " must be above 0; got ", section.limit.value_or(0), ".");
  require<ConfigError>(section.bootstrap_iters >= 0 && section.bootstrap_iters <= 10'000'000, where("bootstrap_iters"),
                       " must be from 0 to 10000000; got ", section.bootstrap_iters, ".");
  const Json& batch = section.batch_size;
  const bool is_auto = batch.is_null() || (batch.is_string() && batch.as_string().starts_with("auto"));
  require<ConfigError>(is_auto || (batch.is_int() && batch.as_int() > 0), where("batch_size"),
                       " must be a number above 0 or \"auto\"; got ", batch.dump(), ".");
  return section;
}

EsurgeSection ELargeConfig::esurge() const {
  const EsurgeSection section = read<EsurgeSection>({"esurge"}, {"esurge"});
  for (const auto& [key, value] : {std::pair("max_model_len", section.max_model_len),
                                   {"max_num_seqs", section.max_num_seqs},
                                   {"max_num_batched_tokens", section.max_num_batched_tokens},
                                   {"page_size", section.page_size}}) {
    require<ConfigError>(!value || *value > 0, where({"esurge", key}), " must be above 0; got ", value.value_or(0),
                         ".");
  }
  require<ConfigError>(!section.hbm_utilization || (*section.hbm_utilization > 0 && *section.hbm_utilization <= 1),
                       where({"esurge", "hbm_utilization"}), " must be above 0 and at most 1; got ",
                       section.hbm_utilization.value_or(0), ".");
  return section;
}

ServeSection ELargeConfig::serve() const {
  const ServeSection section = read<ServeSection>({"serve"}, {});
  const auto check = [&](const char* key, bool is_right, std::string_view rule, auto given) {
    require<ConfigError>(is_right, where({"serve", key}), " must be ", rule, "; got ", given, ".");
  };
  check("port", section.port >= 0 && section.port <= 65535, "from 0 to 65535", section.port);
  check("max_body_mib", section.max_body_mib > 0 && section.max_body_mib <= 4096, "from 1 to 4096",
        section.max_body_mib);
  check("max_connections", section.max_connections > 0, "above 0", section.max_connections);
  check("request_timeout", section.request_timeout >= 0 && section.request_timeout < 1e9, "seconds, 0 or more",
        section.request_timeout);
  check("shutdown_timeout", section.shutdown_timeout >= 0 && section.shutdown_timeout < 1e9, "seconds, 0 or more",
        section.shutdown_timeout);
  check("data_parallel_size", section.data_parallel_size > 0, "above 0", section.data_parallel_size);
  check("seed", section.seed >= 0, "0 or more", section.seed);
  require<ConfigError>(section.tls_cert.has_value() == section.tls_key.has_value(), where({"serve", "tls_cert"}),
                       " and tls_key must be given together.");
  return section;
}

std::string ELargeConfig::trainer_type() const {
  const Json* trainer = find({"trainer"});
  require<ConfigError>(!trainer || trainer->is_object(), where({"trainer"}), " must be a mapping; got ",
                       trainer ? trainer->dump() : "", ".");
  const Json* type = find({"trainer", "trainer_type"});
  if (!type) return "sft";
  require<ConfigError>(type->is_string(), where({"trainer", "trainer_type"}), " must be a string; got ", type->dump(),
                       ".");
  std::string name;
  for (const char c : type->as_string()) name += static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
  require_trainer_type(name, where({"trainer", "trainer_type"}));
  return name;
}

TrainingArguments ELargeConfig::training_arguments() const {
  const std::string type = trainer_type();
  const Json* trainer = find({"trainer"});
  const KeyPlace place = [&](std::string_view key) { return where({"trainer", std::string(key)}); };
  TrainingArguments arguments = TrainingArguments::from_json(type, trainer ? *trainer : Json::object(), place);
  if (!has("mixture")) return arguments;
  apply_mixture(arguments);
  arguments.validate_for(type, place);
  return arguments;
}

}  // namespace easydel
