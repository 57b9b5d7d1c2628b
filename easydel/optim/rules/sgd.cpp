#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/optim/optimizers.h"
#include "easydel/optim/rules/elementwise.h"
#include "easydel/optim/rules/fused.h"

namespace easydel::optim {
namespace {

class Sgd : public Elementwise {
 public:
  explicit Sgd(const SgdOptions& o)
      : Elementwise("sgd", true,
                    o.momentum ? std::vector<Moment>{{"trace", o.accumulator_dtype}} : std::vector<Moment>{}),
        o_(o) {
    check_rate("sgd", "learning_rate", o.learning_rate);
    if (o.momentum) check_decay("sgd", "momentum", *o.momentum);
    require<ConfigError>(o.momentum || !o.nesterov, "[sgd] nesterov needs a momentum.");
  }

  void apply(TensorMap& params, TensorMap& gradients, OptState& state, const Placement&) const override {
    const at::NoGradGuard no_grad;
    check_state(state, kind());
    const Items items = collect(kind(), gradients, params);
    const Tensors trace = o_.momentum ? leaves_of(kind(), state, "trace", items) : Tensors();
    const int64_t step = advance(state);
    const double rate_now = rate(step);
    FusedGroups groups;
    Items rest;
    for (std::size_t i = 0; i < items.size(); ++i) {
      Tensors together{items.params[i], items.updates[i]};
      if (o_.momentum) together.push_back(trace[i]);
      if (!groups.add(false, together)) {
        rest.paths.push_back(items.paths[i]);
        rest.updates.push_back(items.updates[i]);
        rest.params.push_back(items.params[i]);
      }
    }
    for (const auto& [key, lists] : groups.groups()) {
      at::_fused_sgd_(lists[0], lists[1], o_.momentum ? lists[2] : Tensors(), /*weight_decay=*/0.0,
                      o_.momentum.value_or(0), rate_now, /*dampening=*/0.0, o_.nesterov, /*maximize=*/false,
                      /*is_first_step=*/false);
    }
    mark_changed(items.params);
    if (rest.size() == 0) return;
    run_all(rest, state, step);
    at::_foreach_add_(rest.params, rest.updates);
  }

 private:
  void run(Batch& batch) const override {
    if (o_.momentum) {
      at::_foreach_mul_(batch.moments[0], *o_.momentum);
      at::_foreach_add_(batch.moments[0], batch.updates);
      if (o_.nesterov) {
        at::_foreach_add_(batch.updates, batch.moments[0], *o_.momentum);
      } else {
        at::_foreach_copy_(batch.updates, batch.moments[0]);
      }
    }
    at::_foreach_mul_(batch.updates, -batch.rate);
  }
  double rate(int64_t step) const override { return rate_at(kind(), "learning_rate", o_.learning_rate, step); }

  SgdOptions o_;
};

}  // namespace

GradientTransformation sgd(const SgdOptions& options) { return std::make_shared<Sgd>(options); }
GradientTransformation sgd(const Schedule& learning_rate) { return sgd(SgdOptions{.learning_rate = learning_rate}); }

}  // namespace easydel::optim
