// Feed-forward blocks: gated (two projections, or both in one) and plain.
#pragma once

#include <optional>

#include "easydel/layers/linear.h"
#include "easydel/layers/norm.h"
#include "easydel/operations/activation.h"

namespace easydel {

struct MlpSpec {
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  std::string act = "silu";
  bool gated = true;
  bool fused_gate_up = false;  // one projection: the gate's half first
  bool bias = false;
  bool transposed = false;  // weights as [in, out]
  // With a gate of its own: of what the activation reads, and of the result.
  double gate_scale = 1, out_scale = 1;
  double dropout = 0;     // of what the second projection reads
  int64_t layer_idx = 0;  // names the dropout's random numbers
  double init_stddev = 0.02;
  std::optional<double> down_init_stddev = {};  // of the second projection, where it differs
  std::string gate_name = "gate_proj", up_name = "up_proj", gate_up_name = "gate_up_proj", down_name = "down_proj";
};

class MLP : public Module {
 public:
  explicit MLP(MlpSpec spec);

  at::Tensor operator()(const at::Tensor& x) const;
  // x + the block of norm(x), in as few launches as a GPU has kernels for.
  at::Tensor add_to(const at::Tensor& x, const Norm& norm) const;
  // Whether what the last projection reads is kept for backward there; else backward computes it again.
  bool keeps_inner(at::Device device) const;
  // Fills in its part, or says why decode_layer has no such MLP; null where it has.
  const char* describe(operations::DecodeLayer& layer) const;

 private:
  // From the results of the first projections, one or two.
  at::Tensor finish(const std::vector<at::Tensor>& projected) const;
  bool drops() const;
  at::Tensor dropped(const at::Tensor& inner) const;

  MlpSpec spec_;
  const operations::Activation& act_;
  const Linear *gate_ = nullptr, *up_ = nullptr, *gate_up_ = nullptr, *down_ = nullptr;
};

}  // namespace easydel
