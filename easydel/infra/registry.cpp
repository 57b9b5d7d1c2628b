#include "easydel/infra/registry.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/hooks.h"

namespace easydel {
namespace {

// Model types that EasyDeL has and this library does not have yet.
constexpr std::string_view kNotYet[] = {
    "arctic",  "aya_vision", "exaone",      "gemma4",         "gidd",         "glm46v", "glm4v",  "glm4v_moe", "grok-1",
    "kimi_vl", "openelm",    "qwen3_5_moe", "qwen3_omni_moe", "qwen3_vl_moe", "rwkv",   "xerxes", "xerxes2",
};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

Registry& Registry::instance() {
  static Registry registry;
  static const bool filled = (require_hook(hooks().register_models, "register_models")(registry), true);
  static_cast<void>(filled);
  return registry;
}

void Registry::register_config(const std::string& model_type, ConfigFactory factory) {
  require<ConfigError>(!model_type.empty(), "[register_config] a model_type must have a name; got an empty one.");
  const std::lock_guard lock(mutex_);
  require<ConfigError>(configs_.emplace(model_type, std::move(factory)).second,
                       "[register_config] a model_type may be registered once; got \"", model_type, "\" again.");
}

std::vector<std::string> Registry::model_types() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, factory] : configs_) names.push_back(name);
  return names;
}

bool Registry::has_config(const std::string& model_type) const {
  const std::lock_guard lock(mutex_);
  return configs_.contains(model_type);
}

std::unique_ptr<BaseConfig> Registry::make_config(const std::string& model_type, const std::string& where) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = configs_.find(model_type);
    if (found != configs_.end()) return found->second();
  }
  const std::vector<std::string> known = model_types();
  require<NotSupportedError>(std::find(std::begin(kNotYet), std::end(kNotYet), model_type) == std::end(kNotYet), where,
                             "model_type \"", model_type, "\" is not yet supported; supported: ", joined(known), ".");
  const std::string nearest = nearest_name(model_type, known);
  fail<ConfigError>(where, "unknown model_type ", quoted(model_type), "; known: ", joined(known), ".",
                    nearest.empty() ? "" : concat(" Did you mean \"", nearest, "\"?"));
}

void Registry::register_module(ModuleEntry entry) {
  const std::lock_guard lock(mutex_);
  require<ConfigError>(configs_.contains(entry.model_type), "[register_module] model_type \"", entry.model_type,
                       "\" has no config yet; call register_config first.");
  const auto key = std::make_pair(entry.model_type, entry.task);
  std::vector<ModuleEntry>& classes = modules_[key];
  const bool taken = std::any_of(classes.begin(), classes.end(), [&](const ModuleEntry& known) {
    return known.architecture.empty() || known.architecture == entry.architecture;
  });
  require<ConfigError>(!taken && (classes.empty() || !entry.architecture.empty()), "[register_module] \"", key.first,
                       "\" has a class for ", task_name(key.second), " already.");
  classes.push_back(std::move(entry));
}

std::vector<TaskType> Registry::tasks(const std::string& model_type) const {
  const std::lock_guard lock(mutex_);
  std::vector<TaskType> found;
  for (const auto& [key, classes] : modules_) {
    if (key.first == model_type) found.push_back(key.second);
  }
  return found;
}

std::unique_ptr<BaseModule> Registry::make_child(const BaseConfig& config, TaskType task) const {
  const std::string model_type(config.model_type());
  std::function<std::unique_ptr<BaseModule>(const BaseConfig&)> make;
  {
    const std::lock_guard lock(mutex_);
    const auto found = modules_.find({model_type, task});
    if (found != modules_.end()) make = found->second.front().make_child;
  }
  require<NotSupportedError>(make != nullptr, "[make_child] a model of type \"", model_type,
                             "\" cannot be a part of another one, for ", task_name(task), ".");
  return make(config);
}

std::shared_ptr<BaseModule> Registry::make_module(const BaseConfig& config, TaskType task) const {
  const std::string model_type(config.model_type());
  const std::vector<TaskType> known = tasks(model_type);
  const std::string architecture =
      config.architectures && !config.architectures->empty() ? config.architectures->front() : "";
  std::function<std::shared_ptr<BaseModule>(const BaseConfig&)> make;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, classes] : modules_) {
      if (key.first != model_type || (task != TaskType::AutoBind && task != key.second)) continue;
      for (const ModuleEntry& entry : classes) {
        if (!architecture.empty() && entry.architecture == architecture) make = entry.make;
      }
    }
  }
  if (make) return make(config);
  if (task == TaskType::AutoBind) {
    task = architecture.empty() ? TaskType::CausalLM : task_of_architecture(architecture);
    if (std::find(known.begin(), known.end(), task) == known.end() && !known.empty()) task = known.front();
  }
  if (task == TaskType::Embedding && std::find(known.begin(), known.end(), task) == known.end())
    task = TaskType::BaseModule;  // whose states are pooled
  {
    const std::lock_guard lock(mutex_);
    const auto found = modules_.find({model_type, task});
    if (found != modules_.end()) make = found->second.front().make;
  }
  std::string names;
  for (const TaskType t : known) names += (names.empty() ? "" : ", ") + task_name(t);
  require<NotSupportedError>(static_cast<bool>(make), "[AutoModel] \"", model_type, "\" has no class for ",
                             task_name(task), "; it has ", names.empty() ? "none" : names, ".");
  return make(config);
}

}  // namespace easydel
