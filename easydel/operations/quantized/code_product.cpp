#include "easydel/operations/quantized/code_product.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/operations/kernels/cpu/block_kernels.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::operations {
namespace {

constexpr int64_t kRun = 32;  // columns that kernels decode at a time

bool has_kernels(const FileCodes& weight) {
  const int64_t in = weight.in(), groups = weight.groups();
  return weight.codes.is_cpu() && in > 0 && groups > 0 && in % (groups * kRun) == 0;
}

// The tensors as kernels read them.
struct HeldCodes {
  at::Tensor codes, scales, zeros;
  explicit HeldCodes(const FileCodes& weight)
      : codes(weight.codes.contiguous()),
        scales(weight.scales.contiguous()),
        zeros(weight.zeros.defined() ? weight.zeros.contiguous() : at::Tensor()) {}

  kernels::CodeArgs args(const FileCodes& weight) const {
    kernels::CodeArgs args;
    args.codes = codes.const_data_ptr<uint8_t>();
    args.row_bytes = codes.size(1);
    args.scales = scales.const_data_ptr();
    args.zeros = zeros.defined() ? zeros.const_data_ptr<uint8_t>() : nullptr;
    args.group = weight.in() / weight.groups();
    args.groups = weight.groups();
    return args;
  }
};

}  // namespace

bool can_multiply_codes(const at::Tensor& x, const FileCodes& weight) {
  return has_kernels(weight) && x.is_cpu() && x.scalar_type() != at::kDouble &&
         x.numel() <= kernels::blocks().most_vectors * weight.in();
}

at::Tensor unpack_codes(const FileCodes& weight, int64_t begin, int64_t end) {
  if (!has_kernels(weight)) return {};
  const HeldCodes dense(weight);
  const kernels::CodeArgs args = dense.args(weight);
  const kernels::BlockKernels& table = kernels::blocks();
  const auto kernel = weight.format == CodeFormat::kMxfp4 ? table.unpack_mxfp4
                      : weight.format == CodeFormat::kFp8 ? table.unpack_fp8
                                                          : table.unpack_uint4;
  const int64_t width = weight.in();
  const at::Tensor out = at::empty({end - begin, width}, at::kFloat);
  float* to = out.mutable_data_ptr<float>();
  for_rows(end - begin, width,
           [&](int64_t first, int64_t last) { kernel(args, begin + first, begin + last, to + first * width); });
  return out;
}

at::Tensor code_product(const at::Tensor& x, const FileCodes& weight) {
  const int64_t out = weight.out(), in = weight.in(), groups = weight.groups();
  require<ShapeError>(x.dim() >= 1 && x.size(-1) == in && can_multiply_codes(x, weight),
                      "[code_product] x's last dimension must be ", in, ", on the CPU and of at most ",
                      kernels::blocks().most_vectors, " vectors; got ", x.sizes(), ".");
  const bool is_mxfp4 = weight.format == CodeFormat::kMxfp4;
  const HeldCodes dense(weight);
  at::Tensor flat = x.detach().reshape({-1, in}).to(at::kFloat).contiguous();
  const int64_t vectors = flat.size(0);
  if (is_mxfp4) flat = flat.view({vectors, in / kRun, kRun / 2, 2}).transpose(2, 3).contiguous().view({vectors, in});
  const at::Tensor sums = dense.zeros.defined() ? flat.view({vectors, groups, in / groups}).sum(2) : at::Tensor();
  const at::Tensor y = at::empty({vectors, out}, at::kFloat);
  kernels::CodeArgs args = dense.args(weight);
  args.x = flat.const_data_ptr<float>();
  args.sums = sums.defined() ? sums.const_data_ptr<float>() : nullptr;
  args.vectors = vectors;
  args.y = y.mutable_data_ptr<float>();
  args.y_row = out;
  const kernels::BlockKernels& table = kernels::blocks();
  const auto kernel = is_mxfp4 ? table.mxfp4 : weight.format == CodeFormat::kFp8 ? table.fp8 : table.uint4;
  for_rows(out, args.row_bytes, [&](int64_t begin, int64_t end) { kernel(args, begin, end); });
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = out;
  return y.view(shape).to(x.scalar_type());
}

}  // namespace easydel::operations
