#include "easydel/operations/quantized/block_product.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/operations/kernels/cpu/block_kernels.h"
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
  const at::Tensor sums = flat.view({vectors, width / 32, 32}).sum(2);
  kernels::BlockArgs args;
  args.blocks = blocks.const_data_ptr<uint8_t>();
  args.row_bytes = given.size(1) * bytes;
  args.x = flat.const_data_ptr<float>();
  args.sums = sums.const_data_ptr<float>();
  args.width = width;
  args.vectors = vectors;
  args.y = y.mutable_data_ptr<float>();
  args.y_row = out;
  const kernels::BlockKernels& table = kernels::blocks();
  const auto kernel = format == BlockFormat::kQ8_0   ? table.q8_0
                      : format == BlockFormat::kQ4_K ? table.q4_k
                      : format == BlockFormat::kQ5_K ? table.q5_k
                                                     : table.q6_k;
  for_rows(out, args.row_bytes, [&](int64_t begin, int64_t end) { kernel(args, begin, end); });
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = out;
  return y.view(shape).to(x.scalar_type());
}

}  // namespace easydel::operations
