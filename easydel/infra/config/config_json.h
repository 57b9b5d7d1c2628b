// The way between a config's fields and its JSON; BaseConfig's public functions stand on this.
#pragma once

#include <string>

#include "easydel/core/json/json.h"
#include "easydel/infra/config/base_config.h"
#include "easydel/infra/config/config_spelling.h"

namespace easydel {

struct ConfigJson {
  // The family's fields, then what Hugging Face and EasyDeL add.
  static void all_fields(BaseConfig& config, FieldVisitor& v);

  // Sets the fields that the JSON has. Nothing is completed or validated. Errors begin with `where`.
  static void read(BaseConfig& config, CurrentSpelling current, const std::string& where);

  // Every key that was read, in its place, with its text where the value is still the same; then what is new.
  static Json write(const BaseConfig& config);

  // Sets values by key, completes and validates; all or nothing.
  static void change(BaseConfig& config, const Json& values, bool any_key);

  static const Json& source(const BaseConfig& config) { return config.source_; }
};

}  // namespace easydel
