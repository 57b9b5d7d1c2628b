#include "easydel/trainers/objectives/density_ratio.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/infra/decoder/decoder.h"

namespace easydel {
namespace {

at::Tensor with_ones(const at::Tensor& vectors) {
  return at::cat({vectors, at::ones({vectors.size(0), 1}, vectors.options())}, 1);
}

}  // namespace

at::Tensor prompt_vectors(const BaseModule& model, const Batch& batch) {
  const at::NoGradGuard no_grad;
  ModelInputs inputs = batch.inputs();
  inputs.labels = at::Tensor();
  const auto& trunk = dynamic_cast<const CausalLMModule&>(model).base_model();
  const at::Tensor hidden = trunk(inputs).last_hidden_state.to(at::kDouble);
  const at::Tensor lengths = batch.numbers.at("prompt_tokens").to(hidden.device()).unsqueeze(1);
  const at::Tensor mask = at::arange(hidden.size(1), lengths.options()).unsqueeze(0).lt(lengths).unsqueeze(-1);
  return (hidden.masked_fill(~mask, 0).sum(1) / lengths.clamp_min(1)).to(at::kCPU);
}

void DensityRatio::fit(const at::Tensor& vectors, const at::Tensor& labels) {
  const auto count = static_cast<double>(labels.size(0)), wanted = labels.sum().item<double>();
  require<ConfigError>(wanted > 0 && wanted < count,
                       "[bco] underlying_distribution_matching needs rows with desirable and undesirable answers; got ",
                       wanted, " and ", count - wanted, ". Otherwise set it to false.");
  const at::Tensor x = with_ones(vectors);
  const at::Tensor sizes = labels * (count / (2 * wanted)) + (1 - labels) * (count / (2 * (count - wanted)));
  at::Tensor penalty = at::ones({x.size(1)}, x.options());
  penalty[-1] = 0;
  const auto cost = [&](const at::Tensor& w) {
    const at::Tensor z = x.mv(w);
    return (0.5 * penalty * w * w).sum().item<double>() +
           (sizes * (-at::log_sigmoid(-z) - labels * z)).sum().item<double>();
  };
  weights_ = at::zeros({x.size(1)}, x.options());
  double now = cost(weights_);
  for (int64_t round = 0; round < 100; ++round) {  // Newton's method; the cost is convex
    const at::Tensor p = at::sigmoid(x.mv(weights_));
    const at::Tensor gradient = penalty * weights_ + x.t().mv(sizes * (p - labels));
    if (gradient.abs().max().item<double>() < 1e-9) break;
    const at::Tensor curvature = x.t().mm((sizes * p * (1 - p)).unsqueeze(1) * x) + at::diag(penalty + 1e-12);
    const at::Tensor step = at::linalg_solve(curvature, gradient);
    double size = 1;
    at::Tensor next = weights_ - step;
    for (double cost_there = cost(next); !(cost_there <= now) && size > 1e-6; cost_there = cost(next)) {
      size /= 2;
      next = weights_ - size * step;
    }
    if (size <= 1e-6) break;
    weights_ = next;
    now = cost(weights_);
  }
}

at::Tensor DensityRatio::operator()(const at::Tensor& vectors, double least, double most) const {
  const at::Tensor p = at::sigmoid(with_ones(vectors).mv(weights_));
  return (p / (1 - p + 1e-8)).clamp(least, most);
}

}  // namespace easydel
