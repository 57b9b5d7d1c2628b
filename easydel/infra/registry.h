// Which model types there are. A call registers one, from the library's own models and from a user's code alike.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/infra/base_config.h"

namespace easydel {

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

 private:
  mutable std::mutex mutex_;
  std::map<std::string, ConfigFactory> configs_;
};

// Defined by the models; the registry calls it once.
void register_models(Registry& registry);

// register_config<MyConfig>() before AutoConfig meets a config.json of that model_type.
template <class C>
void register_config(std::string_view model_type = C::kModelType) {
  Registry::instance().register_config<C>(model_type);
}

}  // namespace easydel
