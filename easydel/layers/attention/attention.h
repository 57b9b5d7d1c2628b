// Self-attention with grouped heads: separate or fused projections, with or without rotary embeddings.
#pragma once

#include <optional>

#include "easydel/layers/attention/head_norm.h"
#include "easydel/layers/forward_context.h"
#include "easydel/layers/linear.h"
#include "easydel/layers/norm.h"

namespace easydel {

struct AttentionSpec {
  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t layer_idx = 0;
  bool fused_qkv = false;    // one projection for q, k and v, in this order
  bool qkv_by_head = false;  // a fused projection with q, k and v of each head together; no grouped heads
  bool qkv_bias = false;
  bool out_bias = false;
  bool transposed = false;                   // weights as [in, out]
  std::optional<HeadNormSpec> qk_norm = {};  // of q and k, before rotation
  std::optional<std::size_t> rope = 0;       // the context's table that rotates q and k; none: no rotary embedding
  operations::RopeStyle rope_style = operations::RopeStyle::Half;
  std::optional<double> scale;  // 1 / sqrt(head_dim)
  int64_t sliding_window = 0;   // 0: none
  double softcap = 0;
  bool sinks = false;  // a learned score per head that absorbs weight and adds nothing to the output
  double dropout = 0;  // of the weights
  double init_stddev = 0.02;
  std::string q_name = "q_proj", k_name = "k_proj", v_name = "v_proj", qkv_name = "qkv_proj", out_name = "o_proj";
};

class Attention : public Module {
 public:
  explicit Attention(AttentionSpec spec);

  struct Output {
    at::Tensor hidden;   // [B, T, D]
    at::Tensor weights;  // [B, N, T, S] if the context requests them
  };
  Output operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const;

  const char* describe(operations::DecodeLayer& layer, const ForwardContext& ctx) const;  // as MLP has it

  double own_flops_per_token(double keys) const override;  // scores and the weighted sum
  int64_t layer_idx() const { return spec_.layer_idx; }
  LayerKeys cached_keys() const;  // what a cache stores for this layer, on this rank

 private:
  struct Projected {
    at::Tensor q_BTNH, k_BTKH, v_BTKH;
  };
  Projected project(const at::Tensor& x_BTD) const;
  HeadCounts heads() const { return {spec_.num_heads, spec_.num_kv_heads}; }
  HeadPart head_part() const;   // this rank's heads
  Interval counted_kv() const;  // and its key/value heads that no earlier rank has

  AttentionSpec spec_;
  std::shared_ptr<Parameter> sinks_;
  const Linear *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *qkv_ = nullptr, *out_ = nullptr;
  const HeadNorm *q_norm_ = nullptr, *k_norm_ = nullptr;
};

}  // namespace easydel
