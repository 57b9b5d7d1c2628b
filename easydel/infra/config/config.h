// What a family's config derives from: struct LlamaConfig : Config<LlamaConfig> { … kModelType = "llama"; … };
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "easydel/infra/config/base_config.h"
#include "easydel/infra/config/config_io.h"

namespace easydel {

// `Base`: BaseConfig, or what several families share.
template <class Derived, class Base = BaseConfig>
struct Config : Base {
  // `where` is named in errors: the file, where there is one.
  static Derived from_dict(const Json& json, const ConfigOptions& options = {}, const std::string& where = "") {
    Derived config;
    check_model_type(config, json, where, options);
    read_config(config, json, where, options);
    return config;
  }

  // A directory with a config.json, that file itself, or the name of a repository on the hub.
  static Derived from_pretrained(const std::string& name_or_path, const ConfigOptions& options = {}) {
    const ConfigFile file = load_config_file(name_or_path, options);
    Derived config = from_dict(file.json, options, file.path);
    config.name_or_path = name_or_path;
    return config;
  }

  std::string_view model_type() const override { return Derived::kModelType; }
  std::string class_name() const override { return short_type_name(typeid(Derived)); }
  std::unique_ptr<BaseConfig> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }

 protected:
  std::unique_ptr<BaseConfig> make_default() const override { return std::make_unique<Derived>(); }
  void assign(BaseConfig&& other) override { static_cast<Derived&>(*this) = static_cast<Derived&&>(other); }
};

}  // namespace easydel
