// The model that a policy is compared with: another one, or the policy without its adapters.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <memory>
#include <string>

#include "easydel/infra/base_module.h"

namespace easydel {

// The model computes like its base as long as this lives.
class WithoutAdapters {
 public:
  explicit WithoutAdapters(BaseModule& model);
  ~WithoutAdapters();
  WithoutAdapters(const WithoutAdapters&) = delete;
  WithoutAdapters& operator=(const WithoutAdapters&) = delete;

 private:
  BaseModule& model_;
};

// What f computes with the reference, without gradients.
template <class F>
auto with_reference(const BaseModule* reference, const BaseModule& policy, const F& f) {
  const at::NoGradGuard no_grad;
  if (reference) return f(*reference);
  const WithoutAdapters off(const_cast<BaseModule&>(policy));  // as it was before, afterwards
  return f(policy);
}

// ConfigError, which names the trainer, unless there is a reference on the model's mesh, or adapters. `key`: what is 0
// where none is needed.
void require_reference(const BaseModule* reference, const BaseModule& model, const std::string& trainer_type,
                       const std::string& key = "");

// Whoever holds a reference only reads it; these two are all that writes.
// ConfigError, which names the trainer, unless there is a reference with the policy's weights. It gets memory of its
// own.
void make_movable(const std::shared_ptr<const BaseModule>& reference, const BaseModule& policy,
                  const std::string& trainer_type);
// reference = alpha policy + (1 - alpha) reference, for all weights: https://huggingface.co/papers/2404.09656.
void move_reference(const std::shared_ptr<const BaseModule>& reference, const BaseModule& policy, double alpha);

}  // namespace easydel
