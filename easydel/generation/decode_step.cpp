#include "easydel/generation/decode_step.h"

#include <ATen/ATen.h>

namespace easydel {

at::Tensor ForwardStep::run() {
  output_ = module_(inputs_);
  // A copy: a view would keep the logits of the whole prompt alive.
  at::Tensor last = output_.logits.select(1, output_.logits.size(1) - 1).to(at::kFloat, false, /*copy=*/true);
  output_.logits.reset();
  return last;
}

at::Tensor ForwardStep::prefill() { return run(); }

at::Tensor ForwardStep::next(const at::Tensor& tokens) {
  update_inputs_for_generation(output_, inputs_, tokens.unsqueeze(1));
  return run();
}

void ForwardStep::reorder(const at::Tensor& rows) { reorder_inputs_for_generation(inputs_, rows); }

std::unique_ptr<DecodeStep> make_decode_step(const BaseModule& module, ModelInputs inputs, bool /*use_cache*/,
                                             int64_t /*max_length*/) {
  return std::make_unique<ForwardStep>(module, std::move(inputs));
}

}  // namespace easydel
