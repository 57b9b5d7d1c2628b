// Rules of arguments, each with its message.
#pragma once

#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "easydel/core/error.h"
#include "easydel/trainers/arguments/training_arguments.h"

namespace easydel {

class ArgumentChecker {
 public:
  explicit ArgumentChecker(const KeyPlace& where) : where_(where) {}

  template <class T>
  void rule(bool holds, std::string_view key, std::string_view must, const T& value) const {
    if (!holds) fail<ConfigError>(where_(key), " must ", must, "; got ", value, ".");
  }
  void at_least(std::string_view key, std::optional<int64_t> value, int64_t least) const {
    if (value) rule(*value >= least, key, concat("be at least ", least), *value);
  }
  // Bounds are written so that NaN fails.
  void finite_from_zero(std::string_view key, std::optional<double> value) const {
    if (value) rule(std::isfinite(*value) && *value >= 0, key, "be a finite number that is not negative", *value);
  }
  void positive(std::string_view key, std::optional<double> value) const {
    if (value) rule(std::isfinite(*value) && *value > 0, key, "be a finite positive number", *value);
  }
  void between(std::string_view key, std::optional<double> value, double low, double high,
               std::string_view must) const {
    if (value) rule(*value >= low && *value <= high, key, must, *value);
  }
  void one_of(std::string_view key, const std::string& value, std::initializer_list<std::string_view> allowed) const {
    std::string known;
    for (const std::string_view name : allowed) {
      if (name == value) return;
      known += concat(known.empty() ? "" : ", ", name);
    }
    const std::string near = nearest_name(value, allowed);
    fail<ConfigError>(where_(key), " must be one of ", known, "; got \"", value, "\".",
                      near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
  }
  void name(std::string_view key, const std::optional<std::string>& value) const {
    if (value) rule(!value->empty(), key, "not be empty", "\"\"");
  }

  // For settings of which only one value is supported.
  template <class T>
  void only(bool holds, std::string_view key, std::string_view must, const T& value, std::string_view instead) const {
    if (!holds) fail<NotSupportedError>(where_(key), " must ", must, "; got ", value, ". ", instead);
  }

  std::string at(std::string_view key) const { return where_(key); }

 private:
  const KeyPlace& where_;
};

// Those of the objectives, whatever the trainer.
void check_objectives(const TrainingArguments& arguments, const ArgumentChecker& checker);

}  // namespace easydel
