// Multi-head latent attention: keys and values of all heads come from one short vector for each token, and a rotated
// part that heads share. A cache stores only these.
#pragma once

#include <optional>

#include "easydel/layers/attention/attention.h"

namespace easydel {

struct LatentAttentionSpec {
  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  std::optional<int64_t> q_lora_rank;  // queries come from their own latent; none: from the hidden state
  int64_t kv_lora_rank = 0;
  int64_t nope_head_dim = 0;  // of q and k, not rotated
  int64_t rope_head_dim = 0;  // of q and k, rotated if any is; one for all heads of k
  int64_t v_head_dim = 0;
  int64_t layer_idx = 0;
  bool bias = false;    // of q_a_proj, kv_a_proj_with_mqa and o_proj
  bool rotated = true;  // else no part is, and the context has no tables
  operations::RopeStyle rope_style = operations::RopeStyle::Interleaved;
  std::optional<double> scale;  // 1 / sqrt(nope_head_dim + rope_head_dim)
  double norm_eps = 1e-6;
  double dropout = 0;  // of the weights
  double init_stddev = 0.02;
};

// The factor of the scores: 1 / sqrt(head size), times a correction for yarn with mscale_all_dim.
double latent_attention_scale(int64_t q_head_dim, const RopeParameters& rope);

class LatentAttention : public Module {
 public:
  explicit LatentAttention(LatentAttentionSpec spec);

  Attention::Output operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const;

  double own_flops_per_token(double keys) const override;
  int64_t layer_idx() const { return spec_.layer_idx; }
  LayerKeys cached_keys() const;

 private:
  struct Latent {
    at::Tensor kv_BTR;    // normed; the same for all heads
    at::Tensor rope_BTH;  // the shared rotated part of the keys
  };
  at::Tensor queries(const at::Tensor& x_BTD, const Group* heads) const;  // [B, T, N, nope + rope], not yet rotated
  Latent latent(const at::Tensor& x_BTD) const;
  operations::AttentionOutput attend_expanded(const at::Tensor& q, const Latent& latent,
                                              const operations::AttentionOptions& options,
                                              const ForwardContext& ctx) const;
  // Keys and values stay latent: their up-projections are absorbed into the queries and the result.
  operations::AttentionOutput attend_latent(const at::Tensor& q, const Latent& latent,
                                            const operations::AttentionOptions& options,
                                            const ForwardContext& ctx) const;
  int64_t q_head_dim() const { return spec_.nope_head_dim + spec_.rope_head_dim; }
  HeadPart head_part() const;

  LatentAttentionSpec spec_;
  const Linear *q_proj_ = nullptr, *q_a_proj_ = nullptr, *q_b_proj_ = nullptr;
  const RMSNorm* q_a_layernorm_ = nullptr;
  const Linear *kv_a_proj_ = nullptr, *kv_b_proj_ = nullptr, *o_proj_ = nullptr;
  const RMSNorm* kv_a_layernorm_ = nullptr;
};

}  // namespace easydel
