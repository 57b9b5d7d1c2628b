// The adapters of one linear map: y + scaling B A x for each that is active.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "easydel/layers/embedding.h"
#include "easydel/layers/linear.h"

namespace easydel {

// The weights of one adapter on one map, as children of the Linear: lora_A.<adapter>.weight and so on; on a table
// lora_embedding_A.<adapter>.weight.
struct LoraWeights {
  std::shared_ptr<Parameter> a;          // [r, in]
  std::shared_ptr<Parameter> b;          // [out, r]
  std::shared_ptr<Parameter> magnitude;  // [out], of DoRA; else null
};

struct LoraPart {
  std::string key;  // names the stream of random numbers of its dropout
  LoraWeights weights;
  double scaling = 1;
  double dropout = 0;
};

class LoraLinear final : public LinearAdapter {
 public:
  LoraLinear(const Linear& base, std::vector<LoraPart> parts) : base_(base), parts_(std::move(parts)) {}

  at::Tensor operator()(const at::Tensor& x, const at::Tensor& y) const override;
  at::Tensor merged(const at::Tensor& matrix) const override;

 private:
  struct Factors {
    at::Tensor a, b, magnitude;  // what this rank computes with; gradients flow
  };
  Factors factors(const LoraPart& part, at::ScalarType dtype) const;
  // What DoRA multiplies by: the magnitude over the norm of each row, through which no gradient flows.
  at::Tensor row_factor(const LoraPart& part, const Factors& f, const at::Tensor& base) const;
  at::Tensor drop(const at::Tensor& x, const LoraPart& part) const;

  const Linear& base_;  // which owns this
  std::vector<LoraPart> parts_;
};

// The adapters of one table: scaling B times the columns of A that the ids name.
class LoraEmbedding final : public EmbeddingAdapter {
 public:
  explicit LoraEmbedding(std::vector<LoraPart> parts) : parts_(std::move(parts)) {}
  at::Tensor operator()(const at::Tensor& ids, const at::Tensor& found) const override;

 private:
  std::vector<LoraPart> parts_;
};

// The matrix [out, in] that a rank computes with, without adapters.
at::Tensor base_matrix(const Linear& linear, DType dtype);

// Whole matrices: `matrix` [out, in] with the part in it. `base` is the matrix before all parts, of which DoRA takes
// the norms.
at::Tensor merge_part(const at::Tensor& matrix, const at::Tensor& base, const at::Tensor& a, const at::Tensor& b,
                      const at::Tensor& magnitude, double scaling);

}  // namespace easydel
