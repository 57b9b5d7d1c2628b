// Gated DeltaNet: linear attention whose state is corrected by each token, and decays.
#pragma once

#include "easydel/layers/attention/head_norm.h"
#include "easydel/layers/recurrent/recurrent_mixer.h"
#include "easydel/operations/activation.h"

namespace easydel {

struct GatedDeltaNetSpec {
  int64_t hidden_size = 0;
  int64_t key_heads = 0;
  int64_t value_heads = 0;  // a multiple of the former
  int64_t key_dim = 0;      // of a head
  int64_t value_dim = 0;
  int64_t conv_kernel = 4;
  // One projection for q, k, v and z of each key head together, and one for b and a; else one for q, k and v in this
  // order, and one for each of the others.
  bool by_key_head = true;
  double norm_eps = 1e-6;
  std::string act = "silu";
  int64_t layer_idx = 0;
  double init_stddev = 0.02;
};

// On a mesh, ranks of the heads' axes have some of the key heads each, with their value heads; where the projections
// are not by key head, every one of them computes all.
class GatedDeltaNet : public RecurrentMixer {
 public:
  explicit GatedDeltaNet(GatedDeltaNetSpec spec);
  at::Tensor operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;
  double own_flops_per_token(double) const override;

 private:
  struct Projected {
    at::Tensor qkv;   // [B, T, channels of the convolution]
    at::Tensor z;     // [B, T, H, V]
    at::Tensor b, a;  // [B, T, H]
  };
  Projected project(const at::Tensor& x, int64_t key_heads) const;
  Interval key_heads() const;  // this rank's
  LogicalAxis axis() const { return spec_.by_key_head ? LogicalAxis::Head : LogicalAxis::Empty; }

  GatedDeltaNetSpec spec_;
  int64_t keys_, values_;  // channels
  const operations::Activation& act_;
  std::vector<const Linear*> in_;  // qkvz and ba; or qkv, z, b and a
  const Linear& out_proj_;
  const CausalConv1d& conv1d_;
  const HeadNorm* head_norm_ = nullptr;  // of this rank's heads
  const RMSNorm* norm_ = nullptr;        // where every rank has all of them
  std::shared_ptr<Parameter> dt_bias_, a_log_;
};

}  // namespace easydel
