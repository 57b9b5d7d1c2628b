// Normalisation layers, computed in float32 or better.
#pragma once

#include "easydel/layers/module.h"
#include "easydel/operations/norm.h"

namespace easydel {

class RMSNorm : public Module {
 public:
  RMSNorm(Dim features, operations::RmsNormOptions options);
  RMSNorm(Dim features, double eps) : RMSNorm(std::move(features), operations::RmsNormOptions{.eps = eps}) {}

  at::Tensor operator()(const at::Tensor& x) const;
  // Of rows that the members of a group have parts of, such as their own heads.
  at::Tensor operator()(const at::Tensor& x, const Group& parts) const;
  std::string extra_repr() const override;

 private:
  operations::RmsNormOptions options_;
  std::shared_ptr<Parameter> weight_;
};

class LayerNorm : public Module {
 public:
  LayerNorm(Dim features, double eps, bool bias = true);

  at::Tensor operator()(const at::Tensor& x) const;
  std::string extra_repr() const override;

 private:
  double eps_;
  std::shared_ptr<Parameter> weight_, bias_;
};

}  // namespace easydel
