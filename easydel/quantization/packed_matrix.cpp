#include "easydel/quantization/packed_matrix.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/core/error.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/quantization/methods/nf4.h"
#include "easydel/quantization/packed_products.h"

namespace easydel::quantization {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct MatrixHolder : torch::CustomClassHolder {
  std::shared_ptr<const PackedMatrix> matrix;
};

// Saves only x's shape: backward dequantizes the rows again, a chunk at a time.
struct PackedProduct : torch::autograd::Function<PackedProduct> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, std::shared_ptr<const PackedMatrix> matrix,
                            std::string_view name) {
    auto holder = c10::make_intrusive<MatrixHolder>();
    holder->matrix = matrix;
    ctx->saved_data["matrix"] = c10::IValue::make_capsule(holder);
    return operations::keep_dot(name, [&] { return matrix->method().multiply(x, matrix->held()); });
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    operations::kernels::require_first_derivative("packed linear");
    const auto holder = c10::static_intrusive_pointer_cast<MatrixHolder>(ctx->saved_data["matrix"].toCapsule());
    at::Tensor d_x;
    if (ctx->needs_input_grad(0)) {
      const LocalShard held = holder->matrix->held();
      d_x = chunked_gradient(grads[0], held.row_count(), held.column_count(), [&](int64_t begin, int64_t end) {
        return holder->matrix->method().matrix(held, begin, end);
      });
    }
    return {d_x, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

PackedMatrix::PackedMatrix(std::shared_ptr<const Method> method, Dim out, Dim in)
    : PackedParts(std::move(method), std::nullopt, std::move(out), std::move(in)) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Parameter& parameter = *parameters_[i];
    if (!parts_[i].in_files) {
      parameter.file_layout = [](const std::string&) { return FileLayout(); };
    } else if (!parts_[i].file_shape.empty()) {
      parameter.file_layout = [shape = parameter.shape, in_file = parts_[i].file_shape](const std::string& path) {
        return FileLayout{{path, std::vector<int64_t>(shape.size(), 0), shape, in_file}};
      };
    }
  }
}

void PackedMatrix::put_into(Module& module) const {
  for (std::size_t i = 0; i < parts_.size(); ++i) module.set_parameter(parts_[i].name, parameters_[i]);
}

void PackedMatrix::fill(const Parameter& dense, bool transposed, const ChannelStatistics* seen) const {
  const at::NoGradGuard no_grad;
  place_like(dense, transposed);
  if (dense.is_lazy()) return;
  const at::Tensor whole = dense.whole();
  bind(quantized(transposed ? whole.t() : whole, seen), whole.device());
}

at::Tensor PackedMatrix::matrix_of(const std::vector<at::Tensor>& parts) const {
  const at::NoGradGuard no_grad;
  LocalShard all;
  all.parts = parts;
  all.out = out_.size;
  all.in = in_.size;
  all.rows = {{0, out_.size}};
  all.columns = {{0, in_.size}};
  return method_->matrix(all, 0, out_.size);
}

std::vector<at::Tensor> PackedMatrix::requantized(const at::Tensor& matrix, const std::vector<at::Tensor>& old) const {
  const at::NoGradGuard no_grad;
  return shaped(method_->requantize(checked(matrix), old));
}

at::Tensor PackedMatrix::multiply(const at::Tensor& x, std::string_view name) const {
  const bool has_gradient = at::GradMode::is_enabled() && x.requires_grad();
  if (has_gradient || operations::inside_checkpoint()) return PackedProduct::apply(x, shared_from_this(), name);
  const LocalShard held = this->held();
  require<ShapeError>(x.dim() >= 1 && x.size(-1) == held.column_count(),
                      "[linear] x's last dimension must be the weight's second; got ", x.sizes(), " and [",
                      held.row_count(), ", ", held.column_count(), "].");
  return method_->multiply(x, held);
}

const operations::PackedCodes* PackedMatrix::codes() const {
  const auto format = method_->format();
  const bool is_nested = parameters_.size() == 4;  // the scales are codes
  if (!format || is_on_mesh() || (parameters_.size() != 2 && !is_nested)) return nullptr;
  const at::Tensor &codes = parameters_[0]->value(), &scales = parameters_[1]->value();
  if (is_nested && codes.is_cpu()) return nullptr;
  const std::lock_guard lock(reading_);
  if (read_.codes.is_same(codes) && read_.scales.is_same(scales)) return &read_;
  read_ = {};
  read_.format = *format;
  read_.codes = codes;
  read_.scales = scales;
  if (is_nested) {
    read_.scale_map = constant_on(nf4_nested_map(), codes.device());
    read_.outer_scales = parameters_[2]->value();
    read_.scale_offset = parameters_[3]->value();
  }
  return &read_;
}

at::Tensor PackedMatrix::dequantize(DType dtype) const {
  const at::NoGradGuard no_grad;
  const LocalShard held = this->held();
  return method_->matrix(held, 0, held.row_count()).to(dtype);
}

at::Tensor PackedMatrix::rows(const at::Tensor& places, DType dtype) const {
  const at::NoGradGuard no_grad;
  LocalShard picked = held();
  const at::Tensor flat = places.reshape({-1}).to(at::kLong);
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (parts_[p].dims[0].of == PartDim::Of::Rows) picked.parts[p] = picked.parts[p].index_select(0, flat);
  }
  picked.row_numbers = flat + first_row();
  std::vector<int64_t> shape = places.sizes().vec();
  shape.push_back(picked.column_count());
  return method_->matrix(picked, 0, flat.size(0)).to(dtype).view(shape);
}

int64_t PackedMatrix::first_row() const {
  if (!is_on_mesh()) return 0;
  const Intervals& rows = computed()[0];
  return rows.empty() ? 0 : rows[0].begin;
}

int64_t PackedMatrix::row_count() const { return is_on_mesh() ? total_size(computed()[0]) : out_.size; }

}  // namespace easydel::quantization
