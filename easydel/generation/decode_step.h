// One step of generation: tokens in, scores of the next one out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "easydel/generation/inputs.h"

namespace easydel {

class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  // The model's logits [B, V] after the prompt, float32. Called once, first.
  virtual at::Tensor prefill() = 0;
  // The logits after one more token of each row, [B].
  virtual at::Tensor next(const at::Tensor& tokens_B) = 0;
  // Row i continues row rows[i].
  virtual void reorder(const at::Tensor& rows_B) = 0;
};

// Through the model's forward: of the new tokens where the inputs have a cache, else of all tokens each time.
class ForwardStep : public DecodeStep {
 public:
  ForwardStep(const BaseModule& module, ModelInputs inputs) : module_(module), inputs_(std::move(inputs)) {}
  at::Tensor prefill() override;
  at::Tensor next(const at::Tensor& tokens_B) override;
  void reorder(const at::Tensor& rows_B) override;

 protected:
  at::Tensor run();
  const BaseModule& module_;
  ModelInputs inputs_;
  ModelOutput output_;
};

// The step for these inputs; rows become at most max_length tokens long. With `trace` it is captured where it can be.
std::unique_ptr<DecodeStep> make_decode_step(const BaseModule& module, ModelInputs inputs, bool use_cache,
                                             int64_t max_length, bool trace = true);

}  // namespace easydel
