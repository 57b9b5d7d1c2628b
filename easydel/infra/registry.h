// Which model types there are. A call registers one, from the library's own models and from a user's code alike.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/infra/config/base_config.h"
#include "easydel/infra/config/config_io.h"
#include "easydel/infra/task_type.h"

namespace easydel {

class BaseModule;

// A class of models: what it is for, whose config it takes, and how one is made.
struct ModuleEntry {
  TaskType task = TaskType::BaseModule;
  std::string model_type;
  std::function<std::shared_ptr<BaseModule>(const BaseConfig& config)> make;  // without weights
  std::string architecture = {};  // the class's name, by which config.json finds it; empty: by the task alone
  // The same as a part of another model; absent: it cannot be one.
  std::function<std::unique_ptr<BaseModule>(const BaseConfig& config)> make_child = {};
};

// Thread-safe. The library's own models are there from the first use.
class Registry {
 public:
  using ConfigFactory = std::function<std::unique_ptr<BaseConfig>()>;

  static Registry& instance();

  // ConfigError when the name is empty or taken.
  void register_config(const std::string& model_type, ConfigFactory factory);
  template <class C>
  void register_config(std::string_view model_type = C::kModelType) {
    register_config(std::string(model_type), [] { return std::make_unique<C>(); });
  }
  std::vector<std::string> model_types() const;  // sorted
  bool has_config(const std::string& model_type) const;
  // A config with its defaults. An unknown model_type is a ConfigError that lists the known ones and the nearest; one
  // that EasyDeL has and this library not yet is a NotSupportedError. Both begin with `where`.
  std::unique_ptr<BaseConfig> make_config(const std::string& model_type, const std::string& where) const;

  // ConfigError when the model_type has that class already, or has no config. A task may have several classes
  // (CLIPTextModel and CLIPTextModelWithProjection): the first is its default, the others are found by their names.
  void register_module(ModuleEntry entry);
  template <class M>
  void register_module(TaskType task) {
    using C = typename M::ConfigType;
    register_module({task, std::string(C::kModelType),
                     [](const BaseConfig& config) -> std::shared_ptr<BaseModule> {
                       return std::make_shared<M>(dynamic_cast<const C&>(config));
                     },
                     short_type_name(typeid(M)),
                     [](const BaseConfig& config) -> std::unique_ptr<BaseModule> {
                       return std::make_unique<M>(dynamic_cast<const C&>(config));
                     }});
  }
  std::vector<TaskType> tasks(const std::string& model_type) const;
  // A lazy module. AutoBind takes the class that the config's architectures name, else its task, else causal LM, else
  // what there is.
  // NotSupportedError when the model has no class for the task, with those it has.
  std::shared_ptr<BaseModule> make_module(const BaseConfig& config, TaskType task) const;
  // The same as a part of another model.
  std::unique_ptr<BaseModule> make_child(const BaseConfig& config, TaskType task) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, ConfigFactory> configs_;
  std::map<std::pair<std::string, TaskType>, std::vector<ModuleEntry>> modules_;
};

// register_config<MyConfig>() before AutoConfig meets a config.json of that model_type.
template <class C>
void register_config(std::string_view model_type = C::kModelType) {
  Registry::instance().register_config<C>(model_type);
}

// register_module<MyModelForCausalLM>(TaskType::CausalLM) before an Auto class meets such a model.
template <class M>
void register_module(TaskType task) {
  Registry::instance().register_module<M>(task);
}

}  // namespace easydel
