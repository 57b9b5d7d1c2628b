// What a float16 loss is multiplied by, so that its gradients do not vanish.
#pragma once

#include <cstdint>
#include <optional>

#include "easydel/core/json/json.h"

namespace easydel {

// Doubled after a number of consecutive steps with finite gradients, halved after a step without.
class LossScale {
 public:
  LossScale() = default;  // 1, always
  // A fixed scale, or a dynamic one.
  LossScale(std::optional<double> fixed, int64_t growth_interval)
      : scale_(fixed.value_or(65536.0)), grows_(!fixed), interval_(growth_interval) {}

  double value() const { return scale_; }
  // Whether a non-finite step only means that the scale is too large.
  bool update(bool finite) {
    if (!grows_) return false;
    if (!finite) {
      good_ = 0;
      if (scale_ <= 1.0) return false;
      scale_ /= 2;
      return true;
    }
    if (++good_ >= interval_) {
      scale_ *= 2;
      good_ = 0;
    }
    return false;
  }

  Json to_json() const { return Json::object({{"scale", scale_}, {"good_steps", good_}}); }
  void load_json(const Json& json) {
    if (!grows_) return;
    scale_ = json.at("scale").as_double();
    good_ = json.at("good_steps").as_int();
  }

 private:
  double scale_ = 1.0;
  bool grows_ = false;
  int64_t interval_ = 0, good_ = 0;
};

}  // namespace easydel
