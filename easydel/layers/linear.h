// A linear map. The weight is stored as the checkpoint stores it, and cast to the input's dtype where it is used.
#pragma once

#include "easydel/layers/module.h"
#include "easydel/operations/linear.h"

namespace easydel {

struct LinearOptions {
  bool bias = false;
  bool transposed = false;  // stored as [in, out], as gpt2's Conv1D does
  double init_stddev = 0.02;
  std::string name = {};  // what checkpoint policies know the result as: "attn_query"
};

class Linear : public Module {
 public:
  Linear(Dim in, Dim out, LinearOptions options = {});

  // On a mesh: a rank's part of the output features, of a whole x; or the whole result, of its part of the input
  // features. Whoever calls several with the same x sums their gradients once, with collectives::enter.
  at::Tensor operator()(const at::Tensor& x) const;

  // Several of the same x, which take less time together when x is the one new token of a sequence.
  static std::vector<at::Tensor> together(const at::Tensor& x, const std::vector<const Linear*>& maps);

  const std::shared_ptr<Parameter>& weight() const { return weight_; }
  const std::shared_ptr<Parameter>& bias() const { return bias_; }  // null without one
  int64_t in_features() const { return in_; }
  int64_t out_features() const { return out_; }
  // Uses another module's weight from now on: an embedding's, for the language model head.
  void tie_weight(const std::shared_ptr<Parameter>& weight);

  double own_flops_per_token(double) const override {
    return 2.0 * static_cast<double>(in_) * static_cast<double>(out_);
  }
  std::string type_name() const override { return options_.transposed ? "Conv1D" : "Linear"; }
  std::string extra_repr() const override;

 private:
  operations::LinearMap map() const;

  LinearOptions options_;
  int64_t in_, out_;
  LogicalAxis in_axis_;  // over its axes each rank has a term of the result
  std::shared_ptr<Parameter> weight_, bias_;
};

}  // namespace easydel
