// Self-attention with grouped heads: separate or fused projections, with or without rotary embeddings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "easydel/layers/attention/head_norm.h"
#include "easydel/layers/attention/relative_bias.h"
#include "easydel/layers/embedding.h"
#include "easydel/layers/forward_context.h"
#include "easydel/layers/linear.h"
#include "easydel/layers/norm.h"

namespace easydel {

// Queries times 1 + scale * log(1 + floor((place + 1) / period)), so that far keys are not drowned by many others.
struct AttentionTemperature {
  double scale = 0.1;
  int64_t period = 8192;
};

struct AttentionSpec {
  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t layer_idx = 0;
  bool fused_qkv = false;    // one projection for q, k and v, in this order
  bool qkv_by_head = false;  // a fused projection with the queries, the key and the value of each group together
  bool qkv_bias = false;
  bool k_bias = true;  // false: no bias on the keys, whatever qkv_bias says
  bool out_bias = false;
  bool cached = true;        // false: no cache has this layer's keys, as in an encoder
  bool output_gate = false;  // q_proj gives each head a gate behind its queries, whose sigmoid multiplies the result
  bool transposed = false;   // weights as [in, out]
  double clip = 0;           // q, k and v are clamped to [-clip, clip]; 0: not
  std::optional<HeadNormSpec> qk_norm = {};  // of q and k
  bool norm_after_rope = false;              // else before the rotation
  std::optional<std::size_t> rope = 0;       // the context's table that rotates q and k; none: no rotary embedding
  operations::RopeStyle rope_style = operations::RopeStyle::Half;
  std::optional<double> scale;  // 1 / sqrt(head_dim)
  int64_t sliding_window = 0;   // 0: none
  int64_t chunk = 0;            // attention within chunks of so many tokens, from the start of the text; 0: off
  std::optional<AttentionTemperature> temperature = {};
  double softcap = 0;
  std::vector<double> alibi =
      {};              // for each head, how much more the score of a key is for each position that it is later
  bool sinks = false;  // a learned score per head that absorbs weight and adds nothing to the output
  std::optional<RelativeBiasSpec> relative_bias = {};  // a table of its own, under relative_attention_bias
  double dropout = 0;                                  // of the weights
  double init_stddev = 0.02;
  std::optional<double> q_init_stddev = {}, out_init_stddev = {};  // where they differ
  std::string q_name = "q_proj", k_name = "k_proj", v_name = "v_proj", qkv_name = "qkv_proj", out_name = "o_proj";
  std::string q_norm_name = "q_norm", k_norm_name = "k_norm";
};

// The slopes of ALiBi: powers of 2^(-max / heads), and for a number of heads that is not a power of two every other one
// of the next power's first.
std::vector<double> alibi_slopes(int64_t heads, double max = 8);

class Attention : public Module {
 public:
  explicit Attention(AttentionSpec spec);

  struct Output {
    at::Tensor hidden;   // [B, T, D]
    at::Tensor weights;  // [B, N, T, S] if the context requests them
  };
  Output operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const;
  // x + the attention of norm(x), in as few launches as a GPU has kernels for.
  Output add_to(const at::Tensor& x_BTD, const Norm& norm, const ForwardContext& ctx) const;

  const char* describe(operations::DecodeLayer& layer, const ForwardContext& ctx) const;  // as MLP has it

  double own_flops_per_token(double keys) const override;  // scores and the weighted sum
  int64_t layer_idx() const { return spec_.layer_idx; }
  bool is_cached() const { return spec_.cached; }
  // [1, N, T, S] of the layer's own table for all of a call's tokens and all heads, for layers that share it through
  // the context; undefined without a table.
  at::Tensor position_bias(const ForwardContext& ctx) const;
  LayerKeys cached_keys() const;  // what a cache stores for this layer, on this rank

 private:
  struct Projected {
    at::Tensor q_BTNH, k_BTKH, v_BTKH;
    at::Tensor gate_BTNH = {};  // with output_gate
  };
  Projected project(const at::Tensor& x_BTD) const;
  Projected by_head(const std::vector<at::Tensor>& all) const;  // what q_, k_ and v_ gave
  Projected split(const at::Tensor& result) const;              // what qkv_ gave
  // Of norm(x), and rotated too where nothing comes between; nullopt where no launch does that.
  std::optional<Projected> project_around(const at::Tensor& x_BTD, const Norm& norm, const ForwardContext& ctx) const;
  bool rotates_results() const { return spec_.rope && !spec_.qk_norm && !spec_.temperature && spec_.clip == 0; }
  void prepare(Projected& x, const ForwardContext& ctx) const;          // normalizes, clips and rotates q and k
  Output attend(Projected& x, const ForwardContext& ctx) const;         // before the last product
  bool norm_and_rotate(Projected& x, const ForwardContext& ctx) const;  // both in one launch, if there is a kernel
  void normalize(Projected& x) const;
  at::Tensor warmed(const at::Tensor& q_BTNH, const ForwardContext& ctx) const;  // by the temperature
  const MaskInfo& mask_of(const ForwardContext& ctx) const;
  void add_positions(Projected& x, const ForwardContext& ctx) const;  // for alibi
  HeadCounts heads() const { return {spec_.num_heads, spec_.num_kv_heads}; }
  HeadPart head_part() const;   // this rank's heads
  Interval counted_kv() const;  // and its key/value heads that no earlier rank has

  AttentionSpec spec_;
  std::shared_ptr<Parameter> sinks_;
  const Linear *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *qkv_ = nullptr, *out_ = nullptr;
  const Embedding* relative_ = nullptr;
  const HeadNorm *q_norm_ = nullptr, *k_norm_ = nullptr;
};

}  // namespace easydel
