// Attention from a decoder's tokens to an encoder's.
#pragma once

#include "easydel/layers/attention/attention.h"

namespace easydel {

// Keys and values are of the context's encoder_hidden. With a cache they are made by the first step and kept in its
// row_states under the layer's number, so that later steps read neither the encoder's states nor these weights.
class CrossAttention : public Module {
 public:
  explicit CrossAttention(AttentionSpec spec);

  Attention::Output operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const;
  double own_flops_per_token(double keys) const override;

 private:
  std::pair<at::Tensor, at::Tensor> keys_and_values(const ForwardContext& ctx) const;
  HeadPart head_part() const;

  AttentionSpec spec_;
  const Linear *q_, *k_, *v_, *out_;
};

}  // namespace easydel
