#include "easydel/operations/kernels/cuda/rows/row_products.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/operations/kernels/cuda/fused.h"

#ifdef EASYDEL_CUDA_KERNELS
#include "easydel/operations/kernels/cuda/launch.h"
#include "easydel/operations/kernels/cuda/packed_layout.h"
#include "easydel/operations/kernels/cuda/rows/row_kernels.h"
#endif

namespace easydel::operations::cuda_fused {

using at::Tensor;

#ifdef EASYDEL_CUDA_KERNELS

namespace {

using cuda_kernels::CodeFormat;
using cuda_kernels::PackedLayout;
using cuda_kernels::RowProduct;

PackedLayout layout_of(const Tensor& x, const RowMap& map) {
  if (map.codes) return cuda_kernels::layout_of(*map.codes);
  PackedLayout layout{};
  layout.codes = CodeFormat::Dense;
  layout.width = x.size(-1);
  return layout;
}

int64_t rows_of(const RowMap& map) { return map.codes ? map.codes->out() : map.weight.size(0); }

bool can_read(const Tensor& x, const RowMap& map) {
  if (map.codes)
    return map.codes->codes.is_cuda() && map.codes->codes.is_contiguous() && in_packs(map.codes->codes) &&
           map.codes->in() == x.size(-1) && cuda_kernels::can_read_packed(cuda_kernels::layout_of(*map.codes));
  return map.weight.is_cuda() && map.weight.dim() == 2 && map.weight.scalar_type() == x.scalar_type() &&
         map.weight.is_contiguous() && map.weight.size(1) == x.size(-1) && in_packs(map.weight);
}

// The table's rows in the order of the vectors, one stride apart.
bool can_rotate(const Tensor& x, const std::vector<RowMap>& maps, const AroundProducts& around) {
  if (!around.rope) return true;
  const Tensor& cos = around.rope->cos;
  if (x.dim() != 3 || cos.dim() != 3 || (x.size(0) != 1 && x.size(1) != 1) || !cos.is_cuda()) return false;
  if ((cos.size(0) != 1 && cos.size(0) != x.size(0)) || cos.size(1) != x.size(1)) return false;
  if (around.head_size % 2 != 0 || 2 * cos.size(2) > around.head_size) return false;
  for (std::size_t i = 0; i < around.rotated; ++i) {
    if (rows_of(maps[i]) % around.head_size != 0) return false;
  }
  return true;
}

}  // namespace

bool can_multiply_rows(const Tensor& x, const std::vector<RowMap>& maps, const AroundProducts& around) {
  if (!applies(x) || x.dim() < 1 || x.numel() == 0 || maps.empty() || maps.size() > RowProduct::kMaxMatrices)
    return false;
  const PackedLayout layout = layout_of(x, maps[0]);
  const int64_t vectors = x.numel() / x.size(-1);
  if (!cuda_kernels::can_row_product(element_of(x), layout.codes, x.size(-1), vectors)) return false;
  for (const RowMap& map : maps) {
    if (!can_read(x, map) || !cuda_kernels::is_alike(layout, layout_of(x, map)) || rows_of(map) >= (1 << 30))
      return false;
  }
  const auto has_type = [&](const Tensor& t) { return t.is_cuda() && t.scalar_type() == x.scalar_type(); };
  if (around.norm.defined() && (!has_type(around.norm) || !around.norm.is_contiguous() || !in_packs(around.norm)))
    return false;
  if (around.residual.defined() &&
      (maps.size() != 1 || !has_type(around.residual) || around.residual.numel() != vectors * rows_of(maps[0])))
    return false;
  if (around.gate &&
      (maps.size() != 2 || around.gate->gated == GatedKernel::None || rows_of(maps[0]) != rows_of(maps[1])))
    return false;
  return can_rotate(x, maps, around);
}

std::vector<Tensor> multiply_rows(const Tensor& given, const std::vector<RowMap>& maps, const AroundProducts& around) {
  Tensor x = given.contiguous();
  if (!in_packs(x)) x = x.clone();
  RowProduct args{};
  args.layout = layout_of(x, maps[0]);
  args.x = x.const_data_ptr();
  args.vectors = static_cast<int>(x.numel() / x.size(-1));
  if (around.norm.defined()) {
    args.norm = row_norm(x, around);
  }
  const Tensor residual = around.residual.defined() ? around.residual.contiguous() : Tensor();
  if (residual.defined()) args.residual = residual.const_data_ptr();
  args.gated = around.gate != nullptr;
  args.gelu = around.gate && around.gate->gated == GatedKernel::GeluTanh;
  Tensor cos, sin;
  if (around.rope) {
    cos = around.rope->cos.to(at::kFloat).contiguous(), sin = around.rope->sin.to(at::kFloat).contiguous();
    args.cos = cos.const_data_ptr<float>(), args.sin = sin.const_data_ptr<float>();
    args.table_row = x.size(0) == 1 ? cos.stride(1) : cos.size(0) == 1 ? 0 : cos.stride(0);
    args.head_size = static_cast<int32_t>(around.head_size), args.half = static_cast<int32_t>(cos.size(2));
    args.interleaved = around.rope_style == RopeStyle::Interleaved;
  }
  std::vector<Tensor> results, biases;
  at::DimVector shape(given.sizes());
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const RowMap& map = maps[i];
    shape.back() = rows_of(map);
    const bool has_result = !around.gate || i == 0;
    if (has_result) results.push_back(at::empty(shape, x.options()));
    biases.push_back(map.bias.defined() ? map.bias.detach().to(x.scalar_type()).contiguous() : Tensor());
    cuda_kernels::PackedRows weight{};
    if (map.codes) {
      weight = cuda_kernels::packed_rows(*map.codes);
    } else {
      weight.codes = map.weight.const_data_ptr(), weight.rows = map.weight.size(0);
    }
    args.matrices[args.count++] = {weight, biases.back().defined() ? biases.back().const_data_ptr() : nullptr,
                                   has_result ? results.back().mutable_data_ptr() : nullptr,
                                   around.rope && i < around.rotated};
  }
  launch(x, [&](auto stream) { cuda_kernels::row_product(element_of(x), args, stream); });
  return results;
}

#else

bool can_multiply_rows(const Tensor&, const std::vector<RowMap>&, const AroundProducts&) { return false; }
std::vector<Tensor> multiply_rows(const Tensor&, const std::vector<RowMap>&, const AroundProducts&) {
  fail<NotSupportedError>("[operations] this build has no GPU kernels: it was built without nvcc.");
}

#endif

}  // namespace easydel::operations::cuda_fused
