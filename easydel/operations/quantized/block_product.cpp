#include "easydel/operations/quantized/block_product.h"

#include <ATen/ATen.h>

#include <array>
#include <numeric>

#include "easydel/core/error.h"
#include "easydel/operations/quantized/arguments.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::operations {

BlockShape block_shape(BlockFormat format) {
  switch (format) {
    case BlockFormat::kQ8_0: return {32, 34};
    case BlockFormat::kQ4_K: return {256, 144};
    case BlockFormat::kQ5_K: return {256, 176};
    case BlockFormat::kQ6_K: return {256, 210};
  }
  return {};
}

void BlockInput::read(const float* x, int64_t width) {
  x_ = x;
  sums_.resize(static_cast<std::size_t>(width / 32));
  for (float& sum : sums_) {
    std::array<float, 8> parts{};  // which compilers add up side by side
    for (std::size_t i = 0; i < 32; ++i) parts[i % 8] += *x++;
    sum = std::accumulate(parts.begin(), parts.end(), 0.0F);
  }
  x = x_;
  const kernels::BlockKernels& table = kernels::blocks();
  is_split_ = table.split_q4_k && width % kernels::kSplitElements == 0;
  if (!is_split_) return;
  digits_.resize(static_cast<std::size_t>(2 * width));
  scales_.resize(static_cast<std::size_t>(width / kernels::kSplitElements));
  table.split_x(x, width, digits_.data(), scales_.data());
}

void BlockInput::put_into(kernels::BlockArgs& args) const {
  args.x = x_;
  args.sums = sums_.data();
  args.vectors = 1;
  if (!is_split_) return;
  args.digits = digits_.data();
  args.scales = scales_.data();
}

BlockKernel block_kernel(BlockFormat format, const kernels::BlockArgs& args) {
  const kernels::BlockKernels& table = kernels::blocks();
  switch (format) {
    case BlockFormat::kQ8_0: return table.q8_0;
    case BlockFormat::kQ4_K: return args.digits ? table.split_q4_k : table.q4_k;
    case BlockFormat::kQ5_K: return table.q5_k;
    case BlockFormat::kQ6_K: break;
  }
  return table.q6_k;
}

int64_t most_block_vectors() { return kernels::blocks().most_vectors; }

at::Tensor block_product(const at::Tensor& x, const at::Tensor& given, BlockFormat format) {
  const auto [elements, bytes] = block_shape(format);
  require<ShapeError>(given.is_cpu() && given.scalar_type() == at::kByte && given.dim() == 3 && given.size(2) == bytes,
                      "[block_product] blocks must be Byte [out, blocks, ", bytes, "] on the CPU; got ", given.sizes(),
                      ".");
  const int64_t out = given.size(0), width = given.size(1) * elements;
  require<ShapeError>(x.is_cpu() && x.dim() >= 1 && x.size(-1) == width, "[block_product] x's last dimension must be ",
                      width, ", on the CPU; got ", x.sizes(), ".");
  const at::Tensor blocks = given.contiguous();
  const at::Tensor flat = x.detach().reshape({-1, width}).to(at::kFloat).contiguous();
  const int64_t vectors = flat.size(0);
  const at::Tensor y = at::empty({vectors, out}, at::kFloat);
  kernels::BlockArgs args;
  args.blocks = blocks.const_data_ptr<uint8_t>();
  args.row_bytes = given.size(1) * bytes;
  args.width = width;
  BlockInput one;
  at::Tensor sums;
  if (vectors == 1) {
    one.read(flat.const_data_ptr<float>(), width);
    one.put_into(args);
  } else {
    sums = flat.view({vectors, width / 32, 32}).sum(2);
    args.x = flat.const_data_ptr<float>();
    args.sums = sums.const_data_ptr<float>();
    args.vectors = vectors;
  }
  args.y = y.mutable_data_ptr<float>();
  args.y_row = out;
  const BlockKernel kernel = block_kernel(format, args);
  for_rows(out, args.row_bytes, [&](int64_t begin, int64_t end) { kernel(args, begin, end); });
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = out;
  return y.view(shape).to(x.scalar_type());
}

}  // namespace easydel::operations
