// A mixture of experts: a router, and gated feed-forward experts stacked along the first dimension.
#pragma once

#include "easydel/layers/linear.h"
#include "easydel/operations/activation.h"
#include "easydel/operations/moe.h"

namespace easydel {

struct ExpertsSpec {
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_experts = 0;
  std::string act = "silu";
  double init_stddev = 0.02;
  // Names of one expert's weights in files that hold experts one by one: "<experts>.<e>.<name>.weight".
  std::string gate_name = "gate_proj", up_name = "up_proj", down_name = "down_proj";
};

// gate_up_proj [E, 2I, D], the gate's rows first, and down_proj [E, D, I]. Files hold them one by one, or stacked; both
// are read, one by one is written.
class Experts : public Module {
 public:
  explicit Experts(ExpertsSpec spec);

  // x [T, D], routed as `routing` says, to [T, D].
  at::Tensor operator()(const at::Tensor& x_TD, const operations::Routing& routing) const;

 private:
  // Rows sorted by expert through these experts' networks.
  at::Tensor run(const at::Tensor& rows, const operations::Dispatch& dispatch) const;
  at::Tensor run_on_mesh(const at::Tensor& x_TD, const operations::Routing& routing) const;

  ExpertsSpec spec_;
  const operations::Activation& act_;
  std::shared_ptr<Parameter> gate_up_proj_, down_proj_;
};

struct MoeSpec {
  ExpertsSpec experts;
  operations::RouterOptions router;
};

class SparseMoE : public Module {
 public:
  explicit SparseMoE(MoeSpec spec);

  struct Output {
    at::Tensor hidden;         // as the input
    at::Tensor router_logits;  // [T, E]
  };
  Output operator()(const at::Tensor& x) const;

  double own_flops_per_token(double keys) const override;  // of the experts that a token meets

 private:
  MoeSpec spec_;
  const Linear& gate_;
  const Experts& experts_;
};

}  // namespace easydel
