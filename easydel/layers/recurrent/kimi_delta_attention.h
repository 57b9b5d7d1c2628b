// Kimi Delta Attention: Gated DeltaNet in which each channel of a key decays by itself.
#pragma once

#include "easydel/layers/attention/head_norm.h"
#include "easydel/layers/recurrent/recurrent_mixer.h"
#include "easydel/operations/activation.h"

namespace easydel {

struct KimiDeltaSpec {
  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;  // of keys and of values; the decay and the output's gate go through as many numbers
  int64_t conv_kernel = 4;
  double norm_eps = 1e-5;
  std::string act = "silu";
  int64_t layer_idx = 0;
  double init_stddev = 0.02;
};

// Ranks of the heads' axes have some of the heads each.
class KimiDeltaAttention : public RecurrentMixer {
 public:
  explicit KimiDeltaAttention(KimiDeltaSpec spec);
  at::Tensor operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;
  double own_flops_per_token(double) const override;

 private:
  Dim all_heads() const;
  const Linear& projection(const char* name, const Dim& in, const Dim& out);
  Interval heads() const;  // this rank's

  KimiDeltaSpec spec_;
  int64_t width_;  // of all heads
  const operations::Activation& act_;
  const Linear &q_proj_, &k_proj_, &v_proj_;
  const CausalConv1d& conv1d_;  // of q, k and v, which files hold one by one
  const Linear &f_a_proj_, &f_b_proj_;
  std::shared_ptr<Parameter> dt_bias_, a_log_;
  const Linear &b_proj_, &g_a_proj_, &g_b_proj_;
  const HeadNorm& o_norm_;
  const Linear& o_proj_;
};

}  // namespace easydel
