// Normalization layers, computed in float32 or better.
#pragma once

#include <optional>

#include "easydel/layers/module.h"
#include "easydel/operations/attention/decode_layer.h"
#include "easydel/operations/linear/around_products.h"
#include "easydel/operations/norm.h"

namespace easydel {

// The norm of a model family, and its options.
struct NormSpec {
  enum class Kind { Rms, Layer };
  Kind kind = Kind::Rms;
  double eps = 1e-6;
  double weight_offset = 0.0;         // the factor is offset + weight
  bool multiply_before_cast = false;  // Rms: by the weight in float32
  bool weight = true;                 // Layer: false for neither a factor nor a bias
  bool bias = true;                   // Layer
};

class Norm : public Module {
 public:
  virtual at::Tensor operator()(const at::Tensor& x) const = 0;
  // For one token on the CPU, if decode_layer supports this norm.
  virtual std::optional<operations::DecodeNorm> decode_norm() const { return std::nullopt; }
  // Fills in the norm where products can apply it to their input; else false.
  virtual bool describe(operations::AroundProducts&) const { return false; }
};

// Adds the norm of `spec` as a child; null for an empty name.
const Norm* add_norm(Module& parent, const std::string& name, Dim features, const NormSpec& spec);

class RMSNorm : public Norm {
 public:
  RMSNorm(Dim features, operations::RmsNormOptions options);
  RMSNorm(Dim features, double eps) : RMSNorm(std::move(features), operations::RmsNormOptions{.eps = eps}) {}

  at::Tensor operator()(const at::Tensor& x) const override;
  std::optional<operations::DecodeNorm> decode_norm() const override;
  bool describe(operations::AroundProducts& around) const override;
  std::string extra_repr() const override;

 private:
  operations::RmsNormOptions options_;
  std::shared_ptr<Parameter> weight_;
};

class LayerNorm : public Norm {
 public:
  LayerNorm(Dim features, const NormSpec& spec);
  LayerNorm(const Dim& features, double eps, bool bias = true)
      : LayerNorm(features, NormSpec{.kind = NormSpec::Kind::Layer, .eps = eps, .bias = bias}) {}

  at::Tensor operator()(const at::Tensor& x) const override;
  std::string extra_repr() const override;
  const std::shared_ptr<Parameter>& weight() const { return weight_; }  // null without one

 private:
  int64_t features_;
  double eps_, weight_offset_;
  std::shared_ptr<Parameter> weight_, bias_;
};

}  // namespace easydel
