#include "easydel/lora/adapter_keys.h"

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"

namespace easydel {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kMagnitude = ".lora_magnitude_vector";

// The suffix of the layer's name in the file; peft's factors of embeddings are not modules, and have no ".weight".
std::string key_end(bool is_table, const char* group) { return concat(".", group, is_table ? "" : ".weight"); }

// Too many to print are counted.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) text += concat(i ? ", " : "", names[i]);
  return names.size() > kShown ? concat(text, ", … (", names.size(), " in all)") : text;
}

// Of stacked experts that a class of transformers holds one by one, the stack's own.
std::string torch_parameter(const BaseModule& model, const std::string& path) {
  const std::string name = model.torch_path(path);
  return name.empty() ? path : name;
}

std::string torch_layer(const BaseModule& model, const std::string& path) {
  std::string weight = model.torch_path(path + ".weight");
  return weight.substr(0, weight.rfind('.'));
}

// The layers of a model by what transformers calls them.
std::map<std::string, std::string> layers_by_torch_path(const BaseModule& model) {
  std::map<std::string, std::string> layers;
  for (const auto& [path, layer] : layers_of(model)) layers.emplace(torch_layer(model, path), path);
  return layers;
}

std::map<std::string, std::string> parameters_by_torch_path(const BaseModule& model) {
  std::map<std::string, std::string> parameters;
  for (const auto& [path, parameter] : model.named_parameters()) parameters.emplace(torch_parameter(model, path), path);
  return parameters;
}

bool cut_end(std::string& name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  name.resize(name.size() - end.size());
  return true;
}

// The names of target_modules; empty where the file does not say which layers there must be.
std::vector<std::string> wanted_names(const LoraConfig& config) {
  for (const char* key : {"layers_to_transform", "exclude_modules"}) {
    const Json* value = config.file.find(key);
    if (value && !value->is_null() && !(value->is_array() && value->size() == 0)) return {};
  }
  const Json* targets = config.file.find("target_modules");
  if (!targets || !targets->is_array()) return {};
  std::vector<std::string> names;
  for (const Json& name : targets->as_array()) {
    if (name.is_string()) names.push_back(name.as_string());
  }
  return names;
}

// A name in the list stands for itself, not for a pattern.
bool is_named(const std::string& path, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return path == name || path.ends_with("." + name); });
}

class Finder {
 public:
  Finder(const BaseModule& model, const LoraConfig& config, const TensorSource& source)
      : config_(config),
        source_(source),
        layers_(layers_by_torch_path(model)),
        parameters_(parameters_by_torch_path(model)),
        own_(layers_of(model)),
        model_(model) {}

  AdapterTensors find() {
    for (const TensorInfo& info : source_.infos()) place(info);
    require<FormatError>(unknown_.empty(), "[", source_.where(),
                         "] this adapter is for a different model: ", model_.type_name(), " has no ", listed(unknown_),
                         ".");
    require<FormatError>(!found_.layers.empty(), "[", source_.where(), "] has no LoRA tensors.");
    check_complete();
    for (const auto& [path, layer] : found_.layers) check_shapes(own_.at(path), layer);
    for (const auto& [path, name] : found_.saved) {
      for (const auto& [own, parameter] : model_.named_parameters()) {
        if (own == path) check_shape(name, parameter->shape);
      }
    }
    require<ShapeError>(shape_mismatches_.empty(), "[", source_.where(),
                        "] this adapter is for a different model: ", listed(shape_mismatches_), ".");
    return std::move(found_);
  }

 private:
  void place(const TensorInfo& info) {
    std::string name = info.name;
    if (name.starts_with(kPrefix)) name = name.substr(kPrefix.size());
    std::string AdapterTensors::Layer::* field = nullptr;
    cut_end(name, ".weight");
    const bool is_table = name.ends_with(".lora_embedding_A") || name.ends_with(".lora_embedding_B");
    if (cut_end(name, ".lora_A") || cut_end(name, ".lora_embedding_A")) {
      field = &AdapterTensors::Layer::a;
    } else if (cut_end(name, ".lora_B") || cut_end(name, ".lora_embedding_B")) {
      field = &AdapterTensors::Layer::b;
    } else if (cut_end(name, kMagnitude)) {
      field = &AdapterTensors::Layer::magnitude;
    }
    require<NotSupportedError>(field || name.find("lora_") == std::string::npos, "[", source_.where(), "] \"",
                               info.name, "\" is not supported: adapters for biases are not supported.");
    if (field) {
      const auto layer = layers_.find(name);
      if (layer == layers_.end() || is_table != (own_.at(layer->second).table != nullptr)) return note_unknown(name);
      AdapterTensors::Layer& own = found_.layers[layer->second];
      require<FormatError>((own.*field).empty(), "[", source_.where(), "] \"", info.name, "\" and \"", own.*field,
                           "\" name the same tensor.");
      own.torch_path = name;
      own.is_table = is_table;
      own.*field = info.name;
      return;
    }
    std::string whole = info.name.starts_with(kPrefix) ? info.name.substr(kPrefix.size()) : info.name;
    // A head that has an adapter is saved with it, in case that it was resized.
    const std::size_t wrapped = whole.rfind(".base_layer.");
    if (wrapped != std::string::npos) whole.erase(wrapped, std::string_view(".base_layer").size());
    const auto parameter = parameters_.find(whole);
    if (parameter == parameters_.end()) return note_unknown(whole);
    require<NotSupportedError>(wrapped != std::string::npos || is_saved_module(config_, whole), "[", source_.where(),
                               "] \"", info.name, "\" is a weight of the base that is not in modules_to_save.");
    found_.saved[parameter->second] = info.name;
  }

  void note_unknown(const std::string& name) {
    if (std::find(unknown_.begin(), unknown_.end(), name) == unknown_.end()) unknown_.push_back(name);
  }

  void check_complete() const {
    std::vector<std::string> missing;
    for (const auto& [path, layer] : found_.layers) {
      const bool is_table = own_.at(path).table != nullptr;
      const LoraGroups& groups = groups_of(is_table);
      if (layer.a.empty()) missing.push_back(layer.torch_path + key_end(is_table, groups.a));
      if (layer.b.empty()) missing.push_back(layer.torch_path + key_end(is_table, groups.b));
      require<NotSupportedError>(!is_table || (!config_.use_dora && !config_.takes_from_base()), "[", source_.where(),
                                 "] \"", layer.torch_path,
                                 "\" is an embedding table, which does not support DoRA, PiSSA or OLoRA.");
      if (config_.use_dora && layer.magnitude.empty()) missing.push_back(layer.torch_path + ".lora_magnitude_vector");
      require<FormatError>(config_.use_dora || layer.magnitude.empty(), "[", source_.where(), "] \"", layer.magnitude,
                           "\" belongs to DoRA, but use_dora is false.");
    }
    const std::vector<std::string> wanted = wanted_names(config_);
    for (const auto& [torch_path, path] : layers_) {
      if (!found_.layers.contains(path) && is_named(torch_path, wanted)) missing.push_back(torch_path);
    }
    require<FormatError>(missing.empty(), "[", source_.where(),
                         "] this adapter is for a different model, or is incomplete: it lacks ", listed(missing), ".");
  }

  void check_shape(const std::string& name, const std::vector<int64_t>& shape) {
    const TensorInfo& info = source_.info(name);
    require<FormatError>(at::isFloatingType(info.dtype), "[", source_.where(), "] \"", name, "\" must be floats; got ",
                         dtype_name(info.dtype), ".");
    if (info.shape != shape)
      shape_mismatches_.push_back(
          concat("\"", name, "\" is ", at::IntArrayRef(info.shape), "; this model needs ", at::IntArrayRef(shape)));
  }

  void check_shapes(const LoraLayer& own, const AdapterTensors::Layer& layer) {
    const int64_t rank = config_.rank_of(layer.torch_path);
    check_shape(layer.a, {rank, own.in().size});
    check_shape(layer.b, {own.out().size, rank});
    if (!layer.magnitude.empty()) check_shape(layer.magnitude, {own.out().size});
  }

  const LoraConfig& config_;
  const TensorSource& source_;
  std::map<std::string, std::string> layers_, parameters_;
  std::map<std::string, LoraLayer> own_;
  const BaseModule& model_;
  AdapterTensors found_;
  std::vector<std::string> unknown_, shape_mismatches_;
};

// "q_proj" where every module of that name is meant, else the whole path.
std::vector<std::string> target_names(const BaseModule& model, const LoraAdapter& adapter) {
  const auto last = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
  std::map<std::string, int64_t> count;
  for (const auto& [path, module] : model.named_modules()) ++count[last(path)];
  std::map<std::string, std::vector<std::string>> own;
  for (const LoraTarget& target : adapter.targets) own[last(target.path)].push_back(target.path);
  std::vector<std::string> names;
  for (const auto& [name, paths] : own) {
    if (static_cast<int64_t>(paths.size()) == count[name]) {
      names.push_back(name);
    } else {
      for (const std::string& path : paths) names.push_back(torch_layer(model, path));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Json sorted(const Json& json) {
  std::map<std::string, Json> keys;
  for (const auto& [key, value] : json.as_object()) keys.emplace(key, value);
  Json result = Json::object();
  for (auto& [key, value] : keys) result[key] = std::move(value);
  return result;
}

Json number(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? Json(static_cast<int64_t>(value)) : Json(value);
}

template <class T>
Json by_name(const std::vector<std::pair<std::string, T>>& entries) {
  Json json = Json::object();
  for (const auto& [name, value] : entries) json[name] = number(static_cast<double>(value));
  return json;
}

Json task_type(TaskType task) {
  return task == TaskType::CausalLM                 ? Json("CAUSAL_LM")
         : task == TaskType::SequenceClassification ? Json("SEQ_CLS")
                                                    : Json();
}

}  // namespace

AdapterTensors find_tensors(const BaseModule& model, const LoraConfig& config, const TensorSource& source) {
  return Finder(model, config, source).find();
}

std::vector<std::pair<std::string, std::string>> parameter_keys(const LoraAdapter& adapter,
                                                                const AdapterTensors& tensors) {
  std::vector<std::pair<std::string, std::string>> keys;
  for (const auto& [path, layer] : tensors.layers) {
    const LoraGroups& groups = groups_of(layer.is_table);
    keys.emplace_back(concat(path, ".", groups.a, ".", adapter.name, ".weight"), layer.a);
    keys.emplace_back(concat(path, ".", groups.b, ".", adapter.name, ".weight"), layer.b);
    if (!layer.magnitude.empty())
      keys.emplace_back(concat(path, ".lora_magnitude_vector.", adapter.name, ".weight"), layer.magnitude);
  }
  return keys;
}

std::vector<std::pair<std::string, std::string>> adapter_file_keys(const BaseModule& model,
                                                                   const LoraAdapter& adapter) {
  AdapterTensors tensors;
  for (const LoraTarget& target : adapter.targets) {
    const std::string name = concat(kPrefix, torch_layer(model, target.path));
    const LoraGroups& groups = groups_of(target.is_table);
    tensors.layers[target.path] = {"", name + key_end(target.is_table, groups.a),
                                   name + key_end(target.is_table, groups.b),
                                   adapter.config.use_dora ? concat(name, kMagnitude) : "", target.is_table};
  }
  auto keys = parameter_keys(adapter, tensors);
  const std::set<std::string> own = adapter_paths({.adapters = {adapter}});
  for (const auto& [path, parameter] : model.named_parameters()) {
    if (!own.contains(path) && is_saved_module(adapter.config, path))
      keys.emplace_back(path, concat(kPrefix, torch_parameter(model, path)));
  }
  return keys;
}

Json adapter_json(const BaseModule& model, const LoraAdapter& adapter, const std::string& given_base) {
  const LoraConfig& config = adapter.config;
  const std::string base_model = given_base.empty() ? model.config().name_or_path : given_base;
  if (!config.file.is_null()) {
    Json json = config.file;
    const Json* named = json.find("base_model_name_or_path");
    const bool keeps_name = given_base.empty() && named && !named->is_null();
    if (!base_model.empty() && !keeps_name) json["base_model_name_or_path"] = base_model;
    return sorted(json);
  }
  bool transposed = false;
  const auto layers = layers_of(model);
  for (const LoraTarget& target : adapter.targets)
    transposed |= !target.is_table && layers.at(target.path).is_transposed();
  return sorted(
      Json::object({{"peft_type", "LORA"},
                    {"task_type", task_type(model.model_task())},
                    {"base_model_name_or_path", base_model.empty() ? Json() : Json(base_model)},
                    {"inference_mode", true},
                    {"r", config.r},
                    {"lora_alpha", number(config.lora_alpha)},
                    {"lora_dropout", config.lora_dropout},
                    {"target_modules", target_names(model, adapter)},
                    {"fan_in_fan_out", transposed},
                    {"bias", "none"},
                    {"use_rslora", config.use_rslora},
                    {"use_dora", config.use_dora},
                    {"modules_to_save", config.modules_to_save.empty() ? Json() : Json(config.modules_to_save)},
                    {"init_lora_weights", config.init == LoraInit::Gaussian ? Json("gaussian")
                                          : config.init == LoraInit::Pissa  ? Json("pissa")
                                          : config.init == LoraInit::Olora  ? Json("olora")
                                                                            : Json(config.init == LoraInit::Default)},
                    {"rank_pattern", by_name(config.rank_pattern)},
                    {"alpha_pattern", by_name(config.alpha_pattern)}}));
}

}  // namespace easydel
