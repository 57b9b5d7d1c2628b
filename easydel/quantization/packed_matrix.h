// A matrix of a model that is kept as codes and scales: what a Linear multiplies with and an Embedding looks up in.
#pragma once

#include <mutex>

#include "easydel/layers/embedding.h"
#include "easydel/layers/linear.h"
#include "easydel/operations/quantized/packed_product.h"
#include "easydel/quantization/packed_parts.h"

namespace easydel::quantization {

class PackedMatrix : public PackedParts,
                     public PackedWeight,
                     public PackedTable,
                     public std::enable_shared_from_this<PackedMatrix> {
 public:
  PackedMatrix(std::shared_ptr<const Method> method, Dim out, Dim in);

  void put_into(Module& module) const;  // under the parts' names
  // Puts the parts where the dense weight lies, and fills them from it if it has memory. All ranks call this together.
  void fill(const Parameter& dense, bool transposed, const ChannelStatistics* seen) const;
  // Of whole parts on the CPU: the float32 matrix that they stand for; and the parts of another one in its place.
  at::Tensor matrix_of(const std::vector<at::Tensor>& parts) const;
  std::vector<at::Tensor> requantized(const at::Tensor& matrix, const std::vector<at::Tensor>& old) const;

  at::Tensor multiply(const at::Tensor& x, std::string_view name) const override;
  at::Tensor dequantize(DType dtype) const override;
  const operations::PackedCodes* codes() const override;
  at::Tensor rows(const at::Tensor& places, DType dtype) const override;
  int64_t first_row() const override;
  int64_t row_count() const override;

 private:
  // What `codes` gives, of the values that the parameters had.
  mutable operations::PackedCodes read_;
  mutable std::mutex reading_;
};

}  // namespace easydel::quantization
