#include <ATen/ATen.h>

#include "easydel/optim/optimizers.h"
#include "easydel/optim/rules/elementwise.h"

namespace easydel::optim {
namespace {

class Lion : public Elementwise {
 public:
  explicit Lion(const LionOptions& o) : Elementwise("lion", true, {{"mu", o.mu_dtype}}, o.mask), o_(o) {
    check_rate("lion", "learning_rate", o.learning_rate);
    check_decay("lion", "b1", o.b1);
    check_decay("lion", "b2", o.b2);
    check_not_negative("lion", "weight_decay", o.weight_decay);
  }

 private:
  void run(Batch& batch) const override {
    const Tensors &g = batch.updates, &mu = batch.moments[0];
    Tensors sign = at::_foreach_mul(g, 1 - o_.b1);
    at::_foreach_add_(sign, mu, o_.b1);
    at::_foreach_sign_(sign);
    at::_foreach_mul_(mu, o_.b2);
    at::_foreach_add_(mu, g, 1 - o_.b2);
    at::_foreach_copy_(g, sign);
    if (o_.weight_decay != 0) {
      for (std::size_t i = 0; i < g.size(); ++i) {
        if (batch.chosen[i]) g[i].add_(batch.params[i], o_.weight_decay);
      }
    }
    at::_foreach_mul_(g, -batch.rate);
  }
  double rate(int64_t step) const override { return rate_at(kind(), "learning_rate", o_.learning_rate, step); }

  LionOptions o_;
};

}  // namespace

GradientTransformation lion(const LionOptions& options) { return std::make_shared<Lion>(options); }
GradientTransformation lion(const Schedule& learning_rate) { return lion(LionOptions{.learning_rate = learning_rate}); }

}  // namespace easydel::optim
