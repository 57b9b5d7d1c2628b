#include "easydel/trainers/objectives/ppo/ppo_loss.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace easydel {

PpoLoss ppo_loss(const PpoTerms& t, const PpoArguments& ppo, double tokens) {
  const auto mean = [&](const at::Tensor& values) { return (values * t.mask).sum() / std::max(tokens, 1.0); };
  const at::Tensor log_ratio = (t.logps - t.old_logps) * t.mask;
  const at::Tensor ratio = at::exp(log_ratio);
  const at::Tensor plain = -t.advantages * ratio;
  const at::Tensor clipped = -t.advantages * at::clamp(ratio, 1 - ppo.cliprange, 1 + ppo.cliprange);
  const at::Tensor policy = mean(at::maximum(plain, clipped));

  const at::Tensor moved = at::clamp(t.values - t.old_values, -ppo.cliprange_value, ppo.cliprange_value);
  const at::Tensor error = at::square(t.values - t.returns);
  const at::Tensor clipped_error = at::square(t.old_values + moved - t.returns);
  const at::Tensor value = 0.5 * mean(at::maximum(error, clipped_error));

  const at::Tensor entropy = mean(t.entropies);
  PpoLoss out{.loss = policy + ppo.vf_coef * value, .metrics = {}};
  if (const double weight = ppo.entropy_coef.value_or(0); weight != 0) out.loss = out.loss - weight * entropy;
  out.metrics = {{"policy_loss", policy.detach()},
                 {"value_loss", value.detach()},
                 {"entropy", entropy.detach()},
                 {"approx_kl", 0.5 * mean(at::square(log_ratio.detach()))},
                 {"pg_clipfrac", mean(clipped.gt(plain))},
                 {"vf_clipfrac", mean(clipped_error.gt(error))},
                 {"ratio_mean", mean(ratio.detach())},
                 {"advantages_mean", mean(t.advantages)},
                 {"returns_mean", mean(t.returns)}};
  return out;
}

}  // namespace easydel
