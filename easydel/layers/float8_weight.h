// A dense weight whose products in training are computed in float8.
#pragma once

#include "easydel/layers/linear.h"
#include "easydel/operations/linear/float8.h"

namespace easydel {

// Given to Linear::set_packed together with the dense weight, which stays a parameter.
class Float8Weight final : public PackedWeight {
 public:
  // `linear` owns this object.
  Float8Weight(const Linear& linear, operations::Float8Scales scales) : linear_(linear), scales_(scales) {}

  at::Tensor multiply(const at::Tensor& x, std::string_view name) const override;
  at::Tensor dequantize(DType dtype) const override;

  // Whether the map has a dense weight [out, in] of which the part that this rank computes with has sizes that float8
  // products can have.
  static bool fits(const Linear& linear);

 private:
  const Linear& linear_;
  operations::Float8Scales scales_;
};

}  // namespace easydel
