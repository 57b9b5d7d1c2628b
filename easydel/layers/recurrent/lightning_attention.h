// Lightning attention: linear attention whose state decays, by a rate of each head that does not depend on the tokens.
#pragma once

#include <vector>

#include "easydel/layers/computed_weights.h"
#include "easydel/layers/norm.h"
#include "easydel/layers/recurrent/recurrent_mixer.h"
#include "easydel/operations/activation.h"

namespace easydel {

struct LightningAttentionSpec {
  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  int64_t block_size = 256;  // tokens that are computed together
  int64_t num_layers = 0;    // of the model: later layers forget less
  double norm_eps = 1e-6;
  std::string act = "silu";
  int64_t layer_idx = 0;
  double init_stddev = 0.02;
};

// On a mesh every rank of the heads' axes computes all of it.
class LightningAttention : public RecurrentMixer, public ComputedWeights {
 public:
  explicit LightningAttention(LightningAttentionSpec spec);
  at::Tensor operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;
  double own_flops_per_token(double) const override;
  void fill(at::TensorOptions options) override;

 private:
  at::Tensor slopes() const;  // [H], the logarithm of what a head's state loses with each token

  LightningAttentionSpec spec_;
  const operations::Activation& act_;
  const RMSNorm& norm_;
  const Linear &qkv_proj_, &out_proj_, &output_gate_;
  // What transformers' files hold of the slopes.
  std::shared_ptr<Parameter> slope_rate_, query_decay_, key_decay_, diagonal_decay_;
};

}  // namespace easydel
