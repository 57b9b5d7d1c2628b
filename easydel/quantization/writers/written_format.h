// Formats that other programs read, as they are written: what a matrix becomes, and what config.json says.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "easydel/core/dtype.h"
#include "easydel/core/json/json.h"

namespace easydel::quantization {

// How a format is asked for.
struct FormatChoice {
  std::string format;      // fp8, compressed-tensors, gptq, awq
  std::string scheme;      // of compressed-tensors: int4, int8 or fp8; else empty
  int64_t group_size = 0;  // columns with one scale; 0: 128, the format's own
};

class WrittenFormat {
 public:
  virtual ~WrittenFormat() = default;
  // `dense` are the linear layers that are not packed.
  virtual Json config(const std::vector<std::string>& dense) const = 0;
  // The tensors of a float32 matrix [out, in] on the CPU, by what follows the layer's path; those that stay floats have
  // the dtype of the model's other weights. `hessian`: the sum of x x^T over a text [in, in], where the format uses it.
  // ConfigError if the sizes do not fit.
  virtual std::vector<std::pair<std::string, at::Tensor>> pack(const at::Tensor& matrix, DType dtype,
                                                               const at::Tensor& hessian) const = 0;
  enum class Text : uint8_t { Unused, Optional, Needed };  // for calibration
  virtual Text text() const { return Text::Unused; }
};

// ConfigError lists the known formats and schemes.
std::unique_ptr<const WrittenFormat> make_written_format(const FormatChoice& choice);

// For the formats' files.
std::unique_ptr<const WrittenFormat> make_written_compressed(const FormatChoice& choice);
std::unique_ptr<const WrittenFormat> make_written_gptq(const FormatChoice& choice);
std::unique_ptr<const WrittenFormat> make_written_awq(const FormatChoice& choice);

// Scales [out, groups] of codes from -2^(bits - 1), each the best of several by squared error; in `dtype`'s precision.
at::Tensor symmetric_scales(const at::Tensor& matrix, int64_t bits, int64_t group, DType dtype);
// GPTQ's: columns are rounded one after the other, and those that follow make up for the errors. A hessian that is not
// defined counts all inputs alike.
struct RoundedColumns {
  at::Tensor codes;   // uint8 [out, in], 4 bits around 8
  at::Tensor scales;  // float32 [out, groups], in `dtype`'s precision
};
RoundedColumns round_columns(const at::Tensor& matrix, const at::Tensor& hessian, int64_t group, DType dtype);
// The group's size, checked; ConfigError if it does not divide the columns.
int64_t checked_group(const FormatChoice& choice, int64_t columns);

}  // namespace easydel::quantization
