// A mixture of experts: a router, and gated feed-forward experts stacked along the first dimension.
#pragma once

#include "easydel/layers/linear.h"
#include "easydel/layers/mlp.h"
#include "easydel/operations/activation.h"
#include "easydel/operations/moe/moe.h"

namespace easydel {

struct ExpertsSpec {
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_experts = 0;
  std::string act = "silu";
  double init_stddev = 0.02;
  // The implementation, named by moe_method. fused_moe: rows sorted by expert and one product for all of them, in one
  // operation; standard_moe: the same as separate operations; dense_moe: every expert for every token.
  std::string method = "fused_moe";
  // The format of gpt_oss: stacked in files too, matrices as [in, out], biases, and gate and up interleaved.
  bool transposed = false;
  bool down_transposed = false;  // down_proj alone as [in, out]; the family says how files store the stacks
  bool bias = false;
  std::optional<operations::ClampedGate> clamped_gate = {};  // instead of `act`, on interleaved gate and up
  // Names of one expert's weights in files that store experts separately: "<experts>.<e>.<name>.weight".
  std::string gate_name = "gate_proj", up_name = "up_proj", down_name = "down_proj";
  // Names of the stacks in files that store them whole beside the experts; empty: they do not.
  std::string stacked_gate_up_name = "", stacked_down_name = "";
};

// Quantized stacked matrices of codes and scales.
class PackedExperts {
 public:
  virtual ~PackedExperts() = default;
  // x [R, in], sorted by expert, times the matrices of this rank's experts. Differentiable in x; codes have no
  // gradient.
  virtual at::Tensor multiply(const at::Tensor& x, const operations::Dispatch& dispatch) const = 0;
};

// gate_up_proj [E, 2I, D], the gate's rows first, and down_proj [E, D, I]. Files store them separately or stacked; both
// are read, separate ones are written.
class Experts : public Module {
 public:
  explicit Experts(ExpertsSpec spec);

  // x [T, D], routed by `routing`, to [T, D].
  at::Tensor operator()(const at::Tensor& x_TD, const operations::Routing& routing) const;
  // The same with a norm before and a sum after, on a GPU and for a few tokens; nullopt where there is no kernel.
  std::optional<at::Tensor> apply_around(const at::Tensor& x_TD, const operations::Routing& routing,
                                         const operations::AroundProducts& around) const;

  // A matrix [out, in] of every expert.
  struct Stack {
    std::string name;  // of the parameter
    Dim out, in;
    bool transposed = false;
    std::shared_ptr<Parameter> dense;  // [E, out, in], or [E, in, out] when transposed; null when it is packed
    std::shared_ptr<const PackedExperts> packed;
  };
  const std::vector<Stack>& stacks() const { return stacks_; }  // gate_up_proj and down_proj
  const Dim& experts_dim() const { return experts_; }
  bool transposed() const { return spec_.transposed || spec_.down_transposed; }  // some stack, and files store stacks
  // As for a Linear: whoever packs replaces the dense parameters by those of the codes.
  void set_packed(std::string_view name, std::shared_ptr<const PackedExperts> packed,
                  std::shared_ptr<Parameter> dense = nullptr);

 private:
  bool is_fused() const;
  bool is_packed() const { return stacks_[0].packed || stacks_[1].packed; }
  // Rows sorted by expert through these experts' networks.
  at::Tensor run(const at::Tensor& rows, const operations::Dispatch& dispatch) const;
  at::Tensor run_dense(const at::Tensor& x_TD, const operations::Routing& routing) const;
  at::Tensor run_on_mesh(const at::Tensor& x_TD, const operations::Routing& routing) const;
  at::Tensor gate(const at::Tensor& gate_up) const;
  at::Tensor gate_up_bias(at::ScalarType dtype) const;  // undefined without one
  at::Tensor down_bias(at::ScalarType dtype) const;     // on a mesh, this rank's share of it
  void name_in_files();

  ExpertsSpec spec_;
  const operations::Activation& act_;
  Dim experts_;
  std::vector<Stack> stacks_;
  std::shared_ptr<Parameter> gate_up_proj_bias_, down_proj_bias_;
};

struct MoeSpec {
  ExpertsSpec experts;
  operations::RouterOptions router;
  std::string router_name = "gate";
  std::string router_in_files = "";  // where files call its weight otherwise: "<router>.<this>"
  bool router_bias = false;
  bool router_in_float32 = false;      // logits too, in any compute dtype
  bool selection_bias = false;         // a weight e_score_correction_bias of the router, without gradient
  std::string selection_bias_in = "";  // a child of the router that has it, as [1, E]; files have that child beside it
  int64_t shared_intermediate = 0;     // of shared_experts, an MLP for every token; 0: none
  bool shared_bias = false;
  std::string shared_name = "shared_experts";
  bool weigh_inputs = false;  // the router's weights multiply what the experts read, not what they give
  bool shared_gate = false;   // the shared MLP's output times the sigmoid of a linear map, "<shared_name>_gate"
};

class SparseMoE : public Module {
 public:
  explicit SparseMoE(MoeSpec spec);

  struct Output {
    at::Tensor hidden;         // as the input
    at::Tensor router_logits;  // [T, E]
  };
  Output operator()(const at::Tensor& x) const;
  // x + (*this)(norm(x)); on a GPU and for a few tokens, without kernels for the norm and the sum.
  Output add_to(const at::Tensor& x, const Norm& norm) const;

  double own_flops_per_token(double keys) const override;  // of the experts of one token

 private:
  at::Tensor run_weighed_inputs(const at::Tensor& x_TD, const operations::Routing& routing) const;
  std::optional<Output> add_fused(const at::Tensor& x, const Norm& norm) const;
  operations::RouterOptions router_options() const;
  bool widens(const at::Tensor& x) const { return spec_.router_in_float32 && x.scalar_type() != at::kDouble; }

  MoeSpec spec_;
  const Linear& gate_;
  const Experts& experts_;
  const MLP* shared_experts_ = nullptr;
  const Linear* shared_gate_ = nullptr;
  std::shared_ptr<Parameter> selection_bias_;
};

}  // namespace easydel
