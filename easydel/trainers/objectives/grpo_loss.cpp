#include "easydel/trainers/objectives/grpo_loss.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"

namespace easydel {
namespace {

at::Tensor row_lengths(const at::Tensor& mask) { return mask.sum(1).clamp_min(1); }

// The tokens whose entropy is among the highest of the minibatch.
at::Tensor high_entropy(const PolicyTerms& t, double share) {
  const at::Tensor counted = t.entropies.masked_select(t.mask.gt(0)).to(at::kFloat);
  if (counted.numel() == 0) return at::zeros_like(t.mask);
  return ((t.entropies * t.mask).ge(at::quantile(counted, 1 - share)) & t.mask.gt(0)).to(t.mask.scalar_type());
}

// VESPO's weight of a completion, from the product of its ratios.
at::Tensor gamma_weight(const PolicyTerms& t, const at::Tensor& log_ratio, const at::Tensor& advantages,
                        const GrpoArguments& g) {
  const at::NoGradGuard no_grad;
  const at::Tensor log_w = (log_ratio.clamp(-20, 20) * t.mask).sum(1, /*keepdim=*/true).clamp(std::log(1e-8), 20);
  const at::Tensor positive = advantages.ge(0);
  const at::Tensor k = at::where(positive, g.vespo_k_pos, g.vespo_k_neg).to(log_w.scalar_type());
  const at::Tensor lambda =
      at::where(positive, g.vespo_lambda_pos, g.vespo_lambda_neg).to(log_w.scalar_type()).clamp_min(1e-4);
  return at::exp(lambda + k * log_w - lambda * at::exp(log_w)).nan_to_num(0, 0, 0);
}

// Means over tokens of the step, or over rows for values of whole rows.
class PolicyMeans {
 public:
  PolicyMeans(const PolicyTerms& terms, const PolicyDivisors& divisors) : terms_(terms), divisors_(divisors) {}
  at::Tensor operator()(const at::Tensor& x) const {
    if (x.size(1) == 1) return x.detach().to(terms_.mask.scalar_type()).sum() / divisors_.rows;
    return (x.detach().to(terms_.mask.scalar_type()) * terms_.mask).sum() / std::max(divisors_.tokens, 1.0);
  }
  // Of the rows that count, each by its mean.
  at::Tensor of_rows(const at::Tensor& x) const {
    const at::Tensor values = x.detach().to(terms_.mask.scalar_type());
    if (x.size(1) == 1) return values.squeeze(1);
    const at::Tensor lengths = terms_.mask.sum(1);
    const at::Tensor means = ((values * terms_.mask).sum(1) / lengths).masked_select(lengths.gt(0));
    return means.numel() > 0 ? means : at::zeros({1}, means.options());
  }

 private:
  const PolicyTerms& terms_;
  const PolicyDivisors& divisors_;
};

void add_clip_metrics(const at::Tensor& ratio, const at::Tensor& advantages, double low, double high,
                      const PolicyMeans& mean, double share, std::map<std::string, at::Tensor>& metrics) {
  const at::Tensor below = ratio.lt(1 - low) & advantages.lt(0), above = ratio.gt(1 + high) & advantages.gt(0);
  metrics["clip_ratio/low_mean"] = mean(below);
  metrics["clip_ratio/high_mean"] = mean(above);
  metrics["clip_ratio/region_mean"] = mean(below | above);
  metrics["clip_ratio/low_min"] = mean.of_rows(below).min() * share;
  metrics["clip_ratio/high_max"] = mean.of_rows(above).max() * share;
}

}  // namespace

PolicyLoss grpo_loss(const PolicyTerms& t, const GrpoArguments& g, const PolicyDivisors& divisors) {
  const at::Tensor advantages = t.advantages.unsqueeze(1);
  const at::Tensor log_ratio = t.logps - t.old_logps;
  const at::Tensor lengths = row_lengths(t.mask);
  const at::Tensor log_weight =
      g.importance_sampling_level == "sequence" ? ((log_ratio * t.mask).sum(1) / lengths).unsqueeze(1) : log_ratio;
  at::Tensor ratio = at::exp(log_weight);
  const double high = g.epsilon_high.value_or(g.epsilon);
  const PolicyMeans mean(t, divisors);
  PolicyLoss out;

  at::Tensor divergence;
  if (t.reference_logps.defined()) {
    const at::Tensor away = t.reference_logps - t.logps;
    divergence = at::exp(away) - away - 1;
    if (g.use_bias_correction_kl) divergence = divergence * ratio;
    out.metrics["kl"] = mean(divergence);
  }
  out.metrics["entropy"] = mean(t.entropies);

  at::Tensor token_loss;
  if (g.loss_type == "cispo") {
    token_loss = -ratio.clamp_max(high).detach() * advantages * t.logps;
    out.metrics["cispo_clip_ratio"] = mean(ratio.gt(high) & advantages.gt(0));
  } else if (g.loss_type == "sapo") {
    const at::Tensor heat =
        at::where(advantages.gt(0), g.sapo_temperature_pos, g.sapo_temperature_neg).to(ratio.scalar_type());
    token_loss = -at::sigmoid(heat * (ratio - 1)) * 4 / heat * advantages;
  } else if (g.loss_type == "vespo") {
    const at::Tensor weight = gamma_weight(t, log_ratio, advantages, g);
    token_loss = -weight * advantages * t.logps;
    out.metrics["vespo/phi_seq_mean"] = mean(weight);
  } else {
    const at::Tensor clipped = ratio.clamp(1 - g.epsilon, 1 + high);
    if (g.delta) ratio = ratio.clamp_max(*g.delta);
    token_loss = -at::minimum(ratio * advantages, clipped * advantages);
    add_clip_metrics(ratio, advantages, g.epsilon, high, mean, divisors.share, out.metrics);
  }
  if (g.top_entropy_quantile < 1) token_loss = token_loss * high_entropy(t, g.top_entropy_quantile);
  if (divergence.defined()) token_loss = token_loss + g.beta * divergence;

  const at::Tensor sums = (token_loss * t.mask).sum(1);
  if (g.loss_type == "grpo" || g.loss_type == "sapo") {
    out.loss = (sums / lengths).sum() / divisors.rows;
  } else if (g.loss_type == "bnpo") {
    out.loss = sums.sum() / t.mask.sum().clamp_min(1) * divisors.share;
  } else if (g.loss_type == "dr_grpo") {
    out.loss = sums.sum() / (divisors.rows * static_cast<double>(divisors.max_completion_length));
  } else if (g.loss_type == "luspo") {
    out.loss = sums.sum() / divisors.rows;
  } else {
    out.loss = sums.sum() / std::max(divisors.generation_tokens, 1.0);
  }
  return out;
}

PolicyLoss rloo_loss(const PolicyTerms& t, const RlooArguments& r, const PolicyDivisors& divisors) {
  const at::Tensor advantages = t.advantages.unsqueeze(1);
  const at::Tensor ratio = at::exp(((t.logps - t.old_logps) * t.mask).sum(1, /*keepdim=*/true));
  const double high = r.epsilon_high.value_or(r.epsilon);
  const PolicyMeans mean(t, divisors);
  PolicyLoss out;
  out.loss = -at::minimum(ratio * advantages, ratio.clamp(1 - r.epsilon, 1 + high) * advantages).sum() / divisors.rows;
  out.metrics["entropy"] = mean(t.entropies);
  add_clip_metrics(ratio, advantages, r.epsilon, high, mean, divisors.share, out.metrics);
  return out;
}

}  // namespace easydel
