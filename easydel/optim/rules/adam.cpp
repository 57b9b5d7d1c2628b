#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "easydel/operations/kernels/cuda/fused.h"
#include "easydel/optim/optimizers.h"
#include "easydel/optim/rules/elementwise.h"
#include "easydel/optim/rules/fused.h"

namespace easydel::optim {
namespace {

class Adam : public Elementwise {
 public:
  // Without a learning rate: scale_by_adam.
  Adam(const char* kind, AdamwOptions options, bool scales)
      : Elementwise(kind, true, {{"mu", options.mu_dtype}, {"nu"}}, options.mask),
        o_(std::move(options)),
        scales_(scales) {
    check_rate(kind, "learning_rate", o_.learning_rate);
    check_decay(kind, "b1", o_.b1);
    check_decay(kind, "b2", o_.b2);
    check_not_negative(kind, "eps", o_.eps);
    check_not_negative(kind, "eps_root", o_.eps_root);
    check_not_negative(kind, "weight_decay", o_.weight_decay);
  }

  void apply(TensorMap& params, TensorMap& gradients, OptState& state, const Placement& placement) const override {
    if (!scales_ || o_.nesterov || o_.eps_root != 0) {
      return Transformation::apply(params, gradients, state, placement);
    }
    const at::NoGradGuard no_grad;
    check_state(state, kind());
    const Items items = collect(kind(), gradients, params);
    const Tensors mu = leaves_of(kind(), state, "mu", items), nu = leaves_of(kind(), state, "nu", items);
    const int64_t step = advance(state);
    const double rate_now = rate(step);
    FusedGroups groups;
    Items rest;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const bool decays = o_.weight_decay != 0 && chooses(items.paths[i], items.params[i]);
      if (!groups.add(decays, {items.params[i], items.updates[i], mu[i], nu[i]})) {
        rest.paths.push_back(items.paths[i]);
        rest.updates.push_back(items.updates[i]);
        rest.params.push_back(items.params[i]);
      }
    }
    for (const auto& [key, lists] : groups.groups()) {
      if (operations::cuda_fused::applies(lists[0][0])) {
        operations::cuda_fused::adamw(lists[0], lists[1], lists[2], lists[3],
                                      {rate_now, o_.b1, o_.b2, o_.eps, key.flag ? o_.weight_decay : 0.0, step + 1});
        continue;
      }
      const at::Tensor count =
          at::full({}, static_cast<double>(step + 1), lists[0][0].options().dtype(at::kFloat).requires_grad(false));
      if (key.flag && lists[0][0].is_cpu()) {
        apply_decayed(lists, count, rate_now);
      } else {
        run_kernel(lists, count, rate_now, key.flag ? o_.weight_decay : 0.0);
      }
    }
    mark_changed(items.params);
    if (rest.size() == 0) return;
    run_all(rest, state, step);
    at::_foreach_add_(rest.params, rest.updates);
  }

 private:
  // Parameters, gradients, mu, nu.
  void run_kernel(const std::vector<Tensors>& lists, const at::Tensor& count, double rate, double decay) const {
    const Tensors counts(lists[0].size(), count);
    at::_fused_adamw_(lists[0], lists[1], lists[2], lists[3], {}, counts, rate, o_.b1, o_.b2, decay, o_.eps,
                      /*amsgrad=*/false, /*maximize=*/false);
  }

  // On the CPU the kernel multiplies a parameter by 1 - rate * decay and rounds it: at 1e-7 always in the same
  // direction, which adds up over the steps. Here the kernel computes the update from zero, piece by piece, and the
  // parameter is rounded once.
  void apply_decayed(const std::vector<Tensors>& lists, const at::Tensor& count, double rate) const {
    constexpr int64_t kPiece = int64_t{1} << 16;
    std::vector<std::pair<std::size_t, int64_t>> pieces;  // the parameter, and its offset
    for (std::size_t i = 0; i < lists[0].size(); ++i) {
      for (int64_t begin = 0; begin < lists[0][i].numel(); begin += kPiece) pieces.emplace_back(i, begin);
    }
    for_each_on_threads(/*on_cpu=*/true, pieces.size(), [&](std::size_t p) {
      const auto [i, begin] = pieces[p];
      const int64_t size = std::min(kPiece, lists[0][i].numel() - begin);
      const auto piece = [&, i = i, begin = begin](std::size_t list) {
        return lists[list][i].as_strided({size}, {1}, lists[list][i].storage_offset() + begin);
      };
      const at::Tensor param = piece(0), step = at::zeros({size}, param.options().requires_grad(false));
      run_kernel({{step}, {piece(1)}, {piece(2)}, {piece(3)}}, count, rate, 0);
      param.add_(step.add_(param, -rate * o_.weight_decay));
    });
  }

  void run(Batch& batch) const override {
    const Tensors &g = batch.updates, &mu = batch.moments[0], &nu = batch.moments[1];
    const auto t = static_cast<double>(batch.step + 1);
    at::_foreach_mul_(mu, o_.b1);
    at::_foreach_add_(mu, g, 1 - o_.b1);
    at::_foreach_mul_(nu, o_.b2);
    at::_foreach_addcmul_(nu, g, g, 1 - o_.b2);
    if (o_.nesterov) {
      at::_foreach_mul_(g, (1 - o_.b1) / (1 - std::pow(o_.b1, t)));
      at::_foreach_add_(g, mu, o_.b1 / (1 - std::pow(o_.b1, t + 1)));
    } else {
      at::_foreach_copy_(g, mu);
      at::_foreach_div_(g, 1 - std::pow(o_.b1, t));
    }
    const Tensors scale = at::_foreach_div(nu, 1 - std::pow(o_.b2, t));
    if (o_.eps_root != 0) at::_foreach_add_(scale, o_.eps_root);
    at::_foreach_sqrt_(scale);
    at::_foreach_add_(scale, o_.eps);
    at::_foreach_div_(g, scale);
    if (!scales_) return;
    if (o_.weight_decay != 0) {
      for (std::size_t i = 0; i < g.size(); ++i) {
        if (batch.chosen[i]) g[i].add_(batch.params[i], o_.weight_decay);
      }
    }
    at::_foreach_mul_(g, -batch.rate);
  }
  double rate(int64_t step) const override { return rate_at(kind(), "learning_rate", o_.learning_rate, step); }

  AdamwOptions o_;
  bool scales_;
};

AdamwOptions without_decay(const AdamOptions& o) {
  return {.learning_rate = o.learning_rate,
          .b1 = o.b1,
          .b2 = o.b2,
          .eps = o.eps,
          .eps_root = o.eps_root,
          .mu_dtype = o.mu_dtype,
          .weight_decay = 0,
          .mask = {},
          .nesterov = o.nesterov};
}

}  // namespace

GradientTransformation adam(const AdamOptions& options) {
  return std::make_shared<Adam>("adam", without_decay(options), true);
}
GradientTransformation adam(const Schedule& learning_rate) { return adam(AdamOptions{.learning_rate = learning_rate}); }

GradientTransformation scale_by_adam(const AdamOptions& options) {
  return std::make_shared<Adam>("scale_by_adam", without_decay(options), false);
}

GradientTransformation adamw(const AdamwOptions& options) { return std::make_shared<Adam>("adamw", options, true); }
GradientTransformation adamw(const Schedule& learning_rate) {
  return adamw(AdamwOptions{.learning_rate = learning_rate});
}

}  // namespace easydel::optim
