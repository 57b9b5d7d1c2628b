// The parameters that a packed matrix consists of, or a stack of matrices, one for each expert: how they are declared,
// placed on a mesh, and gathered for a product.
#pragma once

#include <optional>

#include "easydel/layers/module.h"
#include "easydel/quantization/method.h"

namespace easydel::quantization {

class PackedParts {
 public:
  // Declares the parts; they have no memory yet. A stack's have the experts as their first dimension.
  PackedParts(std::shared_ptr<const Method> method, std::optional<Dim> experts, Dim out, Dim in);
  virtual ~PackedParts() = default;

  const Method& method() const { return *method_; }
  int64_t out() const { return out_.size; }
  int64_t in() const { return in_.size; }
  const std::vector<Part>& parts() const { return parts_; }
  const std::vector<std::shared_ptr<Parameter>>& parameters() const { return parameters_; }
  // The parts of a whole matrix of any float type on any device, in order and on the CPU.
  std::vector<at::Tensor> quantized(const at::Tensor& matrix, const ChannelStatistics* seen) const;

  // What this rank computes with, gathered where it is stored in parts. All ranks call this together. The parts of a
  // stack are those of its experts, still stacked.
  LocalShard held() const;

 protected:
  static at::Tensor checked(const at::Tensor& matrix);                  // float32 on the CPU, and finite
  std::vector<at::Tensor> shaped(std::vector<at::Tensor> parts) const;  // of one matrix, as the parameters are
  // Puts the parts where the dense weight lies; its dimensions are the experts, if any, then these two.
  void place_like(const Parameter& dense, bool transposed) const;
  void bind(const std::vector<at::Tensor>& whole, at::Device device) const;
  // The places that this rank computes with, of each dimension of the dense weight. On a mesh.
  const Slices& computed() const { return plan().dense->computed(); }
  bool is_on_mesh() const { return parameters_[0]->sharding() != nullptr; }

  std::shared_ptr<const Method> method_;
  std::optional<Dim> experts_;
  Dim out_, in_;
  std::vector<Part> parts_;
  std::vector<std::shared_ptr<Parameter>> parameters_;

 private:
  // How the parts of a rank fit the columns that it computes with.
  struct Plan {
    std::shared_ptr<const WeightSharding> dense, codes;  // of a weight that lay in the same way
    bool aligned = true;                                 // on every rank
  };
  const Plan& plan() const;
  const AxisNames& column_axes(const Parallel& parallel) const;  // over which ranks compute with parts of the columns

  mutable std::shared_ptr<const Plan> plan_;
};

}  // namespace easydel::quantization
