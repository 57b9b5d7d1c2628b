// One way of keeping a matrix [out, in] as codes and scales. A method is one file in methods/.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/dtype.h"
#include "easydel/core/json/json.h"
#include "easydel/infra/options/quantize_options.h"
#include "easydel/operations/quantized/packed_product.h"
#include "easydel/sharding/collectives/group.h"
#include "easydel/sharding/mesh/interval.h"

namespace easydel::quantization {

// A dimension of a part: one element for `per` rows, or for `per` columns, or `per` elements regardless of the matrix.
struct PartDim {
  enum class Of : uint8_t { Rows, Columns, Neither } of;
  int64_t per = 1;
};

// One tensor of a packed matrix.
struct Part {
  std::string name;  // of the parameter: "weight", "weight.absmax"
  DType dtype;
  std::vector<PartDim> dims;
  std::vector<int64_t> file_shape = {};  // where files have another one than memory
  bool in_files = true;                  // false: its value stands elsewhere in the files
};

// What somebody has of a matrix.
struct LocalShard {
  std::vector<at::Tensor> parts;
  int64_t out = 0, in = 0;          // of the whole
  Intervals rows, columns;          // that the parts are of
  at::Tensor row_numbers = {};      // of rows that were picked one by one: these, and not `rows`
  std::optional<Intervals> cut;     // places among `columns` that are computed with; absent: all
  const Group* together = nullptr;  // ranks that compute with the other columns of the same x; null: none

  int64_t row_count() const { return row_numbers.defined() ? row_numbers.size(0) : total_size(rows); }
  int64_t column_count() const { return total_size(cut ? *cut : columns); }
};

// What was seen of a layer's inputs, by channel: float32 [in].
struct ChannelStatistics {
  at::Tensor mean_abs, mean_square, max_abs;
};

class Method {
 public:
  virtual ~Method() = default;
  virtual QuantizeOptions settings() const = 0;
  // ConfigError when the group size does not divide the columns. The first is "weight".
  virtual std::vector<Part> parts(int64_t out, int64_t in) const = 0;
  virtual bool needs_calibration() const { return false; }
  virtual bool can_quantize() const { return true; }  // false: such weights can only be read from files
  // How the CPU's kernels read parts that are codes and scales; none: they do not.
  virtual std::optional<operations::PackedFormat> format() const { return std::nullopt; }
  // The parts of a float32 matrix on the CPU, in order.
  virtual std::vector<at::Tensor> quantize(const at::Tensor& matrix, const ChannelStatistics* seen) const = 0;
  // The same for a matrix that takes the place of one with these parts; what calibration found is kept.
  virtual std::vector<at::Tensor> requantize(const at::Tensor& matrix, const std::vector<at::Tensor>&) const {
    return quantize(matrix, nullptr);
  }
  // Rows [begin, end) of what is held, with all its columns, as float32.
  virtual at::Tensor dequantize(const LocalShard& held, int64_t begin, int64_t end) const = 0;
  // x [..., columns computed with] times the transposed rows, in x's type; no gradient.
  virtual at::Tensor multiply(const at::Tensor& x, const LocalShard& held) const;
  // What config.json says, under "quantization_config".
  virtual Json config() const;

  // The columns computed with alone.
  at::Tensor matrix(const LocalShard& held, int64_t begin, int64_t end) const;
};

// ConfigError lists the known methods.
std::shared_ptr<const Method> make_method(const QuantizeOptions& settings);

// For a method's file.
using MethodFactory = std::shared_ptr<const Method> (*)(const QuantizeOptions& settings);
std::shared_ptr<const Method> make_nf4(const QuantizeOptions& settings);
std::shared_ptr<const Method> make_8bit(const QuantizeOptions& settings);
std::shared_ptr<const Method> make_int4(const QuantizeOptions& settings);
std::shared_ptr<const Method> make_a8bit(const QuantizeOptions& settings);
std::shared_ptr<const Method> make_a8q(const QuantizeOptions& settings);
std::shared_ptr<const Method> make_a4q(const QuantizeOptions& settings);
// ConfigError if the size is not a multiple of `unit`, or does not divide `in`.
void check_group(const QuantizeOptions& settings, int64_t unit, int64_t in);
void refuse_group(const QuantizeOptions& settings);  // of a method that has none
// The largest |x| of each token over all its columns [..., 1], also those that other ranks compute with.
at::Tensor largest_in_row(const at::Tensor& x, const LocalShard& held);

}  // namespace easydel::quantization
