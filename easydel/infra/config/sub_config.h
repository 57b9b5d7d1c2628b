// A config inside of another: text_config, vision_config.
#pragma once

#include <memory>
#include <string>

#include "easydel/core/error.h"
#include "easydel/infra/config/base_config.h"

namespace easydel {

// Owns a config, whose class its model_type picks. A copy is a copy of the config.
class SubConfig {
 public:
  // What it is where config.json says nothing.
  explicit SubConfig(const BaseConfig& defaults) : config_(defaults.clone()), default_type_(defaults.model_type()) {}
  SubConfig(const SubConfig& other) : config_(other.config_->clone()), default_type_(other.default_type_) {}
  SubConfig(SubConfig&&) = default;
  SubConfig& operator=(const SubConfig& other) { return *this = SubConfig(other); }
  SubConfig& operator=(SubConfig&&) = default;

  const BaseConfig& operator*() const { return *config_; }
  const BaseConfig* operator->() const { return config_.get(); }
  BaseConfig& operator*() { return *config_; }
  BaseConfig* operator->() { return config_.get(); }
  const std::string& default_type() const { return default_type_; }
  void set(std::unique_ptr<BaseConfig> config) { config_ = std::move(config); }

  // NotSupportedError where the file has another class.
  template <class C>
  const C& as() const {
    const auto* config = dynamic_cast<const C*>(config_.get());
    require<NotSupportedError>(config != nullptr, "[SubConfig] model_type must be \"", default_type_, "\" here; got \"",
                               config_->model_type(), "\".");
    return *config;
  }

  // A copy that is split and run as the config around it says.
  std::unique_ptr<BaseConfig> under(const BaseConfig& parent) const;
  // Its partition rules, for what lies under `prefix` ("vision_model.").
  std::vector<PartitionRule> rules_under(const std::string& prefix, bool fully_sharded, const BaseConfig& parent) const;

 private:
  std::unique_ptr<BaseConfig> config_;
  std::string default_type_;
};

template <>
struct FieldType<SubConfig> {
  static Json to_json(const SubConfig& value);
  static void from_json(const Json& json, SubConfig& value, const std::string& where);
  static std::string name() { return "an object"; }
  static std::string plural() { return "objects"; }
};

// {"text_config": {…, "hidden_size": 64}} of {"text_config.hidden_size": 64}: `whole` is the config's JSON. ConfigError
// on a key that the inner config does not have.
Json with_inner_overrides(const Json& whole, const Json& overrides);

}  // namespace easydel
