// The norm of queries or keys: of each head separately, or of all heads of a token together. Only layer norms over Head
// may have a bias.
#pragma once

#include <optional>
#include <utility>

#include "easydel/layers/norm.h"

namespace easydel {

struct HeadNormSpec {
  enum class Over {
    Head,      // one weight [H] for all heads
    EachHead,  // a weight for each head, [heads, H]
    AllHeads,  // the token's heads as one row, with a weight [heads * H]; only for RMS norms
    OneByOne,  // as EachHead, with a layer norm "norms.<i>" for each head; no biases
  };
  NormSpec norm;
  Over over = Over::Head;
};

class HeadNorm : public Module {
 public:
  // `heads`: the heads as a separate dimension.
  HeadNorm(const HeadNormSpec& spec, const Dim& heads, int64_t head_dim);

  // x [B, T, heads of this rank, H]. If ranks share heads, `counted` are those that this one sums, so that each counts
  // once.
  at::Tensor operator()(const at::Tensor& x, Interval counted) const;
  // Its weight and options where each head is normalized with one weight that this device has; else nullopt.
  std::optional<std::pair<at::Tensor, operations::RmsNormOptions>> plain_rms() const;
  std::string type_name() const override;
  std::string extra_repr() const override;

 private:
  at::Tensor weight_of_heads() const;
  at::Tensor over_all_heads(const at::Tensor& x, const at::Tensor& weight, Interval counted) const;

  HeadNormSpec spec_;
  Dim heads_;
  int64_t features_;  // of one norm
  std::shared_ptr<Parameter> weight_, bias_;
  const ModuleList<LayerNorm>* norms_ = nullptr;  // OneByOne
};

}  // namespace easydel
