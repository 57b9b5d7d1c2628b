// The mixers of Mamba: a selective state space for each channel, or for each head of channels.
#pragma once

#include <optional>
#include <vector>

#include "easydel/layers/norm.h"
#include "easydel/layers/recurrent/recurrent_mixer.h"
#include "easydel/operations/activation.h"

namespace easydel {

struct MambaSpec {
  int64_t hidden_size = 0;
  int64_t inner_size = 0;
  int64_t state_size = 0;
  int64_t conv_kernel = 4;
  int64_t time_step_rank = 0;
  double rms_eps = 0;  // above 0: B, C and what time steps are made of are normalized, without weights
  bool bias = false;   // of in_proj and out_proj
  bool conv_bias = true;
  std::string act = "silu";
  int64_t layer_idx = 0;
  double init_stddev = 0.02;
};

// On a mesh, ranks of the MLP's axes have some of the channels each.
class MambaMixer : public RecurrentMixer {
 public:
  explicit MambaMixer(MambaSpec spec);
  at::Tensor operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;
  double own_flops_per_token(double) const override;

 private:
  MambaSpec spec_;
  const operations::Activation& act_;
  const Linear &in_proj_, &x_proj_, &dt_proj_, &out_proj_;
  const CausalConv1d& conv1d_;
  std::shared_ptr<Parameter> a_log_, d_;
};

struct Mamba2Spec {
  enum class Norm { None, BeforeGate, AfterGate };

  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  int64_t state_size = 0;
  int64_t groups = 1;
  int64_t conv_kernel = 4;
  int64_t chunk_size = 256;
  double least_time_step = 0, most_time_step = INFINITY;
  bool bias = false;                  // of in_proj and out_proj
  std::optional<bool> out_bias = {};  // of out_proj, where it differs
  bool conv_bias = true;
  Norm norm = Norm::AfterGate;  // of what out_proj reads
  bool norm_by_group = false;   // of each group's channels alone
  double norm_eps = 1e-5;
  double in_scale = 1;                   // of what in_proj reads
  std::vector<double> part_scales = {};  // of the gate, x, B, C and time steps that it gives; empty: none
  std::string act = "silu";
  int64_t layer_idx = 0;
  double init_stddev = 0.02;
};

// On a mesh every rank of the heads' axes computes all of it.
class Mamba2Mixer : public RecurrentMixer {
 public:
  explicit Mamba2Mixer(Mamba2Spec spec);
  at::Tensor operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;
  double own_flops_per_token(double) const override;

 private:
  at::Tensor scaled_parts(const at::Tensor& projected) const;

  Mamba2Spec spec_;
  int64_t inner_, bc_;  // channels of x, and of B or C
  const operations::Activation& act_;
  const Linear &in_proj_, &out_proj_;
  const CausalConv1d& conv1d_;
  const easydel::Norm* norm_ = nullptr;
  std::shared_ptr<Parameter> a_log_, d_, dt_bias_;
};

}  // namespace easydel
