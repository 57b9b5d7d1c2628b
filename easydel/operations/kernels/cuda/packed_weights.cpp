#include "easydel/operations/kernels/cuda/packed_weights.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/operations/kernels/cuda/rows/row_products.h"

#ifdef EASYDEL_CUDA_KERNELS
#include "easydel/operations/kernels/cuda/launch.h"
#include "easydel/operations/kernels/cuda/packed_layout.h"
#endif

namespace easydel::operations::cuda_packed {

using at::Tensor;

#ifdef EASYDEL_CUDA_KERNELS

namespace {

// Some rows of the matrix at a time, so that little memory is needed beside the codes.
void multiply_dequantized(const Tensor& x, const PackedMap& map, const Tensor& bias, const Tensor& y) {
  constexpr int64_t kChunkElements = int64_t{64} << 20;
  const PackedCodes& weight = *map.weight;
  const int64_t out = weight.out(), chunk = std::max<int64_t>(1, kChunkElements / weight.in());
  for (int64_t begin = 0; begin < out; begin += chunk) {
    const int64_t count = std::min(chunk, out - begin);
    const Tensor dense = cuda_packed::unpack_rows(weight, begin, begin + count, x.scalar_type());
    const Tensor part = bias.defined() ? bias.narrow(0, begin, count) : Tensor();
    if (count == out) {
      at::linear_out(const_cast<Tensor&>(y), x, dense, part.defined() ? std::optional<Tensor>(part) : std::nullopt);
    } else {
      y.narrow(1, begin, count).copy_(at::linear(x, dense, part));
    }
  }
}

std::vector<cuda_fused::RowMap> row_maps(const std::vector<PackedMap>& maps) {
  std::vector<cuda_fused::RowMap> rows;
  for (const PackedMap& map : maps) rows.push_back({{}, map.weight, map.bias});
  return rows;
}

}  // namespace

bool applies(const PackedCodes& weight) {
  return weight.codes.is_cuda() && weight.codes.is_contiguous() && weight.codes.size(1) > 0 && in_packs(weight.codes) &&
         cuda_kernels::can_read_packed(cuda_kernels::layout_of(weight));
}

std::vector<Tensor> multiply(const Tensor& given, const std::vector<PackedMap>& maps) {
  Tensor x = given.contiguous();
  if (!in_packs(x)) x = x.clone();
  const int64_t vectors = x.numel() / std::max<int64_t>(1, x.size(-1));
  const Tensor flat = x.view({vectors, x.size(-1)});
  std::vector<Tensor> results, biases;
  if (std::vector<cuda_fused::RowMap> rows = row_maps(maps); cuda_fused::can_multiply_rows(x, rows, {}))
    return cuda_fused::multiply_rows(x, rows, {});
  for (const PackedMap& map : maps) {
    results.push_back(at::empty({vectors, map.weight->out()}, x.options()));
    biases.push_back(map.bias.defined() ? map.bias.detach().to(x.scalar_type()).contiguous() : Tensor());
  }
  if (vectors > cuda_kernels::most_packed_vectors(element_of(x))) {
    for (std::size_t i = 0; i < maps.size(); ++i) multiply_dequantized(flat, maps[i], biases[i], results[i]);
  } else {
    for (std::size_t i = 0; i < maps.size();) {
      cuda_kernels::PackedProduct args{};
      args.layout = cuda_kernels::layout_of(*maps[i].weight);
      args.x = x.const_data_ptr();
      args.vectors = static_cast<int>(vectors);
      do {
        args.matrices[args.count++] = {cuda_kernels::packed_rows(*maps[i].weight),
                                       biases[i].defined() ? biases[i].const_data_ptr() : nullptr,
                                       results[i].mutable_data_ptr()};
        ++i;
      } while (i < maps.size() && args.count < cuda_kernels::PackedProduct::kMaxMatrices &&
               cuda_kernels::is_alike(args.layout, cuda_kernels::layout_of(*maps[i].weight)));
      launch(x, [&](auto stream) { cuda_kernels::packed_product(element_of(x), args, stream); });
    }
  }
  for (Tensor& y : results) {
    at::DimVector shape(given.sizes());
    shape.back() = y.size(1);
    y = y.view(shape);
  }
  return results;
}

Tensor unpack_rows(const PackedCodes& weight, int64_t begin, int64_t end, at::ScalarType type) {
  const Tensor y = at::empty({end - begin, weight.in()}, weight.codes.options().dtype(type));
  launch(y, [&](auto stream) {
    cuda_kernels::unpack_rows(element_of(y), cuda_kernels::packed_rows(weight), cuda_kernels::layout_of(weight), begin,
                              end - begin, y.mutable_data_ptr(), stream);
  });
  return y;
}

#else

namespace {
[[noreturn]] void missing_kernels() {
  fail<NotSupportedError>("[packed_product] this build has no GPU kernels: it was built without nvcc.");
}
}  // namespace

bool applies(const PackedCodes&) { return false; }
std::vector<Tensor> multiply(const Tensor&, const std::vector<PackedMap>&) { missing_kernels(); }
Tensor unpack_rows(const PackedCodes&, int64_t, int64_t, at::ScalarType) { missing_kernels(); }

#endif

}  // namespace easydel::operations::cuda_packed
