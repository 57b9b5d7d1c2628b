#include <ATen/ATen.h>

#include <cmath>

#include "easydel/core/error.h"
#include "easydel/optim/optimizers.h"
#include "easydel/optim/rules/elementwise.h"
#include "easydel/optim/rules/transforms.h"

namespace easydel::optim {
namespace {

// Divides by the root mean square or, if centered, by the standard deviation.
class Rms : public Elementwise {
 public:
  using Moments = std::vector<Moment>;
  explicit Rms(const RmspropOptions& o)
      : Elementwise(o.centered ? "scale_by_stddev" : "scale_by_rms", true,
                    o.centered ? Moments{{"nu", {}, o.initial_scale}, {"mu"}} : Moments{{"nu", {}, o.initial_scale}}),
        o_(o) {
    check_decay("rmsprop", "decay", o.decay);
    check_not_negative("rmsprop", "eps", o.eps);
    check_not_negative("rmsprop", "initial_scale", o.initial_scale);
  }

 private:
  void run(Batch& batch) const override {
    const Tensors &g = batch.updates, &nu = batch.moments[0];
    const double correction = o_.bias_correction ? 1 - std::pow(o_.decay, static_cast<double>(batch.step + 1)) : 1;
    at::_foreach_mul_(nu, o_.decay);
    at::_foreach_addcmul_(nu, g, g, 1 - o_.decay);
    Tensors variance = at::_foreach_div(nu, correction);
    if (o_.centered) {
      const Tensors& mu = batch.moments[1];
      at::_foreach_mul_(mu, o_.decay);
      at::_foreach_add_(mu, g, 1 - o_.decay);
      at::_foreach_addcmul_(variance, mu, mu, -1 / (correction * correction));
    }
    if (o_.eps_in_sqrt) at::_foreach_add_(variance, o_.eps);
    at::_foreach_sqrt_(variance);
    if (!o_.eps_in_sqrt) at::_foreach_add_(variance, o_.eps);
    at::_foreach_div_(g, variance);
  }

  RmspropOptions o_;
};

}  // namespace

GradientTransformation scale_by_rms(const RmspropOptions& options) { return std::make_shared<Rms>(options); }

GradientTransformation rmsprop(const RmspropOptions& o) {
  check_rate("rmsprop", "learning_rate", o.learning_rate);
  require<ConfigError>(o.momentum || !o.nesterov, "[rmsprop] nesterov needs a momentum.");
  std::vector<GradientTransformation> parts{scale_by_rms(o), scale_by_learning_rate(o.learning_rate)};
  if (o.momentum) parts.push_back(trace({.decay = *o.momentum, .nesterov = o.nesterov}));
  return chain(std::move(parts));
}
GradientTransformation rmsprop(const Schedule& learning_rate) {
  return rmsprop(RmspropOptions{.learning_rate = learning_rate});
}

}  // namespace easydel::optim
