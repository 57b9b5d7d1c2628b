// The norm of queries or keys: of each head by itself, or of all heads of a token together.
#pragma once

#include "easydel/layers/norm.h"

namespace easydel {

struct HeadNormSpec {
  enum class Over {
    Head,      // one weight [H] for all heads
    EachHead,  // a weight for each head, [heads, H]
    AllHeads,  // the token's heads in one row, with a weight [heads * H]; RMS norms alone
  };
  NormSpec norm;
  Over over = Over::Head;
};

class HeadNorm : public Module {
 public:
  // `heads`: the heads as a dimension of their own.
  HeadNorm(const HeadNormSpec& spec, const Dim& heads, int64_t head_dim);

  // x [B, T, heads of this rank, H]. Where ranks hold the same heads, `counted` are those that this one sums up, so
  // that each counts once.
  at::Tensor operator()(const at::Tensor& x, Interval counted) const;
  std::string type_name() const override;
  std::string extra_repr() const override;

 private:
  at::Tensor over_all_heads(const at::Tensor& x, const at::Tensor& weight, Interval counted) const;

  HeadNormSpec spec_;
  int64_t features_;  // that one norm is over
  std::shared_ptr<Parameter> weight_;
};

}  // namespace easydel
