// A matrix of a model that is kept as codes and scales: what a Linear multiplies with and an Embedding looks up in.
#pragma once

#include <mutex>
#include <optional>

#include "easydel/layers/embedding.h"
#include "easydel/layers/linear.h"
#include "easydel/operations/quantized_product.h"
#include "easydel/quantization/method.h"

namespace easydel::quantization {

class PackedMatrix : public PackedWeight, public PackedTable, public std::enable_shared_from_this<PackedMatrix> {
 public:
  // Declares the parts; they have no memory yet.
  PackedMatrix(std::shared_ptr<const Method> method, Dim out, Dim in);

  const Method& method() const { return *method_; }
  int64_t out() const { return out_.size; }
  int64_t in() const { return in_.size; }
  const std::vector<Part>& parts() const { return parts_; }
  const std::vector<std::shared_ptr<Parameter>>& parameters() const { return parameters_; }
  void put_into(Module& module) const;  // under the parts' names
  // The parts of a whole matrix of any float type on any device, in order and on the CPU.
  std::vector<at::Tensor> quantized(const at::Tensor& matrix, const ChannelStatistics* seen) const;
  // Puts the parts where the dense weight lies, and fills them from it if it has memory. All ranks call this together.
  void fill(const Parameter& dense, bool transposed, const ChannelStatistics* seen) const;

  at::Tensor multiply(const at::Tensor& x, std::string_view name) const override;
  at::Tensor dequantize(DType dtype) const override;
  const operations::PackedCodes* codes() const override;
  at::Tensor rows(const at::Tensor& places, DType dtype) const override;
  int64_t first_row() const override;
  int64_t row_count() const override;

  // What this rank computes with, gathered where it is stored in parts. All ranks call this together.
  Held held() const;

 private:
  // How the parts of a rank fit the columns that it computes with.
  struct Plan {
    std::shared_ptr<const WeightSharding> dense, codes;  // of a matrix that lay in the same way
    bool aligned = true;                                 // on every rank
  };
  const Plan& plan() const;
  std::optional<operations::PackedCodes> packed_codes() const;

  std::shared_ptr<const Method> method_;
  Dim out_, in_;
  std::vector<Part> parts_;
  std::vector<std::shared_ptr<Parameter>> parameters_;
  mutable std::shared_ptr<const Plan> plan_;
  // What `codes` gave, and the parameters' values that it is of.
  struct Read {
    at::Tensor codes, scales;
    std::optional<operations::PackedCodes> packed;
  };
  mutable Read read_;
  mutable std::mutex reading_;
};

}  // namespace easydel::quantization
