#include "easydel/optim/rules/transforms.h"

#include <ATen/ATen.h>

#include <cmath>

#include "easydel/core/error.h"
#include "easydel/optim/rules/elementwise.h"

namespace easydel::optim {
namespace {

class Clip : public Elementwise {
 public:
  explicit Clip(double max_delta) : Elementwise("clip", false), max_delta_(max_delta) {
    check_not_negative("clip", "max_delta", max_delta);
  }

 private:
  void run(Batch& batch) const override {
    at::_foreach_clamp_min_(batch.updates, -max_delta_);
    at::_foreach_clamp_max_(batch.updates, max_delta_);
  }
  double max_delta_;
};

class Scale : public Elementwise {
 public:
  Scale(const char* kind, Schedule step_size)
      : Elementwise(kind, !step_size.constant()), step_size_(std::move(step_size)) {}

 private:
  void run(Batch& batch) const override { at::_foreach_mul_(batch.updates, batch.rate); }
  double rate(int64_t step) const override { return step_size_(step); }
  Schedule step_size_;
};

class LearningRate : public Elementwise {
 public:
  LearningRate(Schedule rate, bool flip_sign)
      : Elementwise("scale_by_learning_rate", !rate.constant()), rate_(std::move(rate)), sign_(flip_sign ? -1 : 1) {
    check_rate("scale_by_learning_rate", "learning_rate", rate_);
  }

 private:
  void run(Batch& batch) const override { at::_foreach_mul_(batch.updates, sign_ * batch.rate); }
  double rate(int64_t step) const override { return rate_at(kind(), "learning_rate", rate_, step); }
  Schedule rate_;
  double sign_;
};

class DecayedWeights : public Elementwise {
 public:
  DecayedWeights(Schedule weight_decay, Mask mask)
      : Elementwise("add_decayed_weights", !weight_decay.constant(), {}, std::move(mask)),
        weight_decay_(std::move(weight_decay)) {
    if (weight_decay_.constant()) {
      require<ConfigError>(std::isfinite(*weight_decay_.constant()),
                           "[add_decayed_weights] weight_decay must be finite; got ", *weight_decay_.constant(), ".");
    }
  }

 private:
  double rate(int64_t step) const override { return weight_decay_(step); }
  void run(Batch& batch) const override {
    if (batch.rate == 0) return;
    for (std::size_t i = 0; i < batch.updates.size(); ++i) {
      if (batch.chosen[i]) batch.updates[i].add_(batch.params[i], batch.rate);
    }
  }
  Schedule weight_decay_;
};

class Trace : public Elementwise {
 public:
  explicit Trace(const TraceOptions& o) : Elementwise("trace", false, {{"trace", o.accumulator_dtype}}), o_(o) {
    check_decay("trace", "decay", o.decay);
  }

 private:
  void run(Batch& batch) const override {
    const Tensors& trace = batch.moments[0];
    at::_foreach_mul_(trace, o_.decay);
    at::_foreach_add_(trace, batch.updates);
    if (o_.nesterov) {
      at::_foreach_add_(batch.updates, trace, o_.decay);
    } else {
      at::_foreach_copy_(batch.updates, trace);
    }
  }
  TraceOptions o_;
};

class Ema : public Elementwise {
 public:
  explicit Ema(const EmaOptions& o) : Elementwise("ema", true, {{"ema", o.accumulator_dtype}}), o_(o) {
    check_decay("ema", "decay", o.decay);
  }

 private:
  void run(Batch& batch) const override {
    const Tensors& ema = batch.moments[0];
    at::_foreach_mul_(ema, o_.decay);
    at::_foreach_add_(ema, batch.updates, 1 - o_.decay);
    at::_foreach_copy_(batch.updates, ema);
    if (o_.debias) at::_foreach_div_(batch.updates, 1 - std::pow(o_.decay, static_cast<double>(batch.step + 1)));
  }
  EmaOptions o_;
};

}  // namespace

GradientTransformation clip(double max_delta) { return std::make_shared<Clip>(max_delta); }

GradientTransformation scale(double step_size) {
  require<ConfigError>(std::isfinite(step_size), "[scale] step_size must be finite; got ", step_size, ".");
  return std::make_shared<Scale>("scale", step_size);
}

GradientTransformation scale_by_schedule(Schedule step_size) {
  return std::make_shared<Scale>("scale_by_schedule", std::move(step_size));
}

GradientTransformation scale_by_learning_rate(Schedule learning_rate, bool flip_sign) {
  return std::make_shared<LearningRate>(std::move(learning_rate), flip_sign);
}

GradientTransformation add_decayed_weights(Schedule weight_decay, Mask mask) {
  return std::make_shared<DecayedWeights>(std::move(weight_decay), std::move(mask));
}

GradientTransformation trace(const TraceOptions& options) { return std::make_shared<Trace>(options); }
GradientTransformation ema(const EmaOptions& options) { return std::make_shared<Ema>(options); }

}  // namespace easydel::optim
