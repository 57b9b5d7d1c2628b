#include "easydel/quantization/packed_products.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "easydel/operations/kernels/cuda/packed_weights.h"
#include "easydel/operations/quantized/packed_product.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::quantization {
namespace {

// What a byte stands for: both of its values.
const std::array<std::array<float, 2>, 256>& pairs() {
  static const auto table = [] {
    std::array<std::array<float, 2>, 256> pairs{};
    for (std::size_t byte = 0; byte < 256; ++byte)
      pairs[byte] = {operations::nf4_values()[byte >> 4], operations::nf4_values()[byte & 15]};
    return pairs;
  }();
  return table;
}

// Rows that are dense at one time: few enough to stay in a cache near by, on a GPU enough to keep it busy.
int64_t chunk_rows(const at::Tensor& x, int64_t in) {
  const int64_t elements = x.is_cuda() ? int64_t{64} << 20 : int64_t{1} << 19;
  return std::max<int64_t>(1, elements / std::max<int64_t>(1, in));
}

at::Tensor rows_on_cpu(const at::Tensor& codes, int64_t width, const auto& fill) {
  const at::Tensor out = at::empty({codes.size(0), width}, at::kFloat);
  float* to = out.mutable_data_ptr<float>();
  operations::for_rows(codes.size(0), width, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) fill(row, to + row * width);
  });
  return out;
}

// Dense, as kernels read them.
operations::PackedCodes dense_codes(operations::PackedFormat format, const at::Tensor& codes,
                                    const at::Tensor& scales) {
  operations::PackedCodes packed;
  packed.format = format;
  packed.codes = codes.contiguous();
  packed.scales = scales.contiguous();
  return packed;
}

// x times rows that kernels read, or a chunk at a time.
at::Tensor product(const at::Tensor& x, const operations::PackedCodes& packed, const RowsOf& rows_of) {
  if (packed.codes.size(1) > 0 && operations::can_multiply_packed(x, packed))
    return operations::packed_product(x, packed);
  return chunked_product(x, packed.out(), rows_of);
}

}  // namespace

at::Tensor nf4_table() { return at::tensor(at::ArrayRef<float>(operations::nf4_values(), 16)); }

at::Tensor constant_on(const at::Tensor& table, at::Device device) {
  if (device.is_cpu()) return table;
  static std::mutex mutex;
  static auto& known = *new std::map<std::pair<const void*, c10::DeviceIndex>, at::Tensor>;  // outlives the device
  const std::lock_guard lock(mutex);
  at::Tensor& there = known[{table.const_data_ptr(), device.index()}];
  if (!there.defined()) there = table.to(device);
  return there;
}

at::Tensor chunked_product(const at::Tensor& x, int64_t rows, const RowsOf& rows_of) {
  const at::Tensor flat = x.reshape({-1, x.size(-1)});
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = rows;
  const at::Tensor y = at::empty({flat.size(0), rows}, x.options());
  const int64_t chunk = chunk_rows(x, x.size(-1));
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t end = std::min(rows, begin + chunk);
    const at::Tensor dense = rows_of(begin, end).to(x.scalar_type());
    if (begin == 0 && end == rows) return at::linear(flat, dense).view(shape);
    y.narrow(1, begin, end - begin).copy_(at::linear(flat, dense));
  }
  return y.view(shape);
}

at::Tensor chunked_gradient(const at::Tensor& d_y, int64_t rows, int64_t in, const RowsOf& rows_of) {
  const at::Tensor flat = d_y.reshape({-1, rows});
  std::vector<int64_t> shape = d_y.sizes().vec();
  shape.back() = in;
  // Sums of many chunks are kept in float32.
  const int64_t chunk = chunk_rows(d_y, in);
  const bool one = rows <= chunk;
  at::Tensor d_x = one ? at::Tensor() : at::zeros({flat.size(0), in}, d_y.options().dtype(at::kFloat));
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t end = std::min(rows, begin + chunk);
    const at::Tensor term = flat.narrow(1, begin, end - begin).mm(rows_of(begin, end).to(d_y.scalar_type()));
    if (one) {
      d_x = term;
    } else {
      d_x += term;
    }
  }
  return d_x.defined() ? d_x.to(d_y.scalar_type()).view(shape) : at::zeros(shape, d_y.options());
}

at::Tensor int8_rows(const at::Tensor& codes, const at::Tensor& scales) {
  return codes.to(at::kFloat).mul_((scales / 127.0).unsqueeze(1));
}

at::Tensor int8_product(const at::Tensor& x, const at::Tensor& codes, const at::Tensor& scales) {
  return product(x, dense_codes(operations::PackedFormat::kInt8, codes, scales), [&](int64_t begin, int64_t end) {
    return int8_rows(codes.narrow(0, begin, end - begin), scales.narrow(0, begin, end - begin));
  });
}

at::Tensor nf4_rows(const at::Tensor& codes, const at::Tensor& absmax, int64_t group) {
  const int64_t half = codes.size(1), width = 2 * half;
  if (const auto packed = dense_codes(operations::PackedFormat::kNf4, codes, absmax);
      operations::cuda_packed::applies(packed))
    return operations::unpack(packed);
  if (!codes.is_cpu()) {
    const at::Tensor table =
        constant_on(at::from_blob(const_cast<float*>(pairs()[0].data()), {256, 2}), codes.device());
    const at::Tensor values = at::embedding(table, codes.to(at::kInt)).view({codes.size(0), width / group, group});
    return (values * absmax.unsqueeze(-1)).view({codes.size(0), width});
  }
  const at::Tensor from = codes.contiguous(), scale = absmax.contiguous();
  const uint8_t* bytes = from.const_data_ptr<uint8_t>();
  const float* scales = scale.const_data_ptr<float>();
  const auto& table = pairs();
  return rows_on_cpu(codes, width, [&, half, width, group](int64_t row, float* to) {
    const uint8_t* byte = bytes + row * half;
    const float* own = scales + row * (width / group);
    for (int64_t block = 0; block < width / group; ++block) {
      for (int64_t i = 0; i < group / 2; ++i, ++byte, to += 2) {
        to[0] = table[*byte][0] * own[block];
        to[1] = table[*byte][1] * own[block];
      }
    }
  });
}

at::Tensor nf4_product(const at::Tensor& x, const at::Tensor& codes, const at::Tensor& absmax, int64_t group) {
  return product(x, dense_codes(operations::PackedFormat::kNf4, codes, absmax), [&](int64_t begin, int64_t end) {
    return nf4_rows(codes.narrow(0, begin, end - begin), absmax.narrow(0, begin, end - begin), group);
  });
}

at::Tensor int4_pack(const at::Tensor& values) {
  const at::Tensor halves = values.reshape({values.size(0), values.size(1) / 32, 2, 16});
  return halves.select(2, 0).bitwise_or(halves.select(2, 1).bitwise_left_shift(4)).reshape({values.size(0), -1});
}

at::Tensor int4_rows(const at::Tensor& codes, const at::Tensor& scales, int64_t group) {
  const int64_t half = codes.size(1), width = 2 * half;
  if (const auto packed = dense_codes(operations::PackedFormat::kInt4, codes, scales);
      operations::cuda_packed::applies(packed))
    return operations::unpack(packed);
  if (!codes.is_cpu()) {
    const at::Tensor bytes = codes.view({codes.size(0), width / 32, 16});
    const at::Tensor values = at::stack({bytes.bitwise_and(15), bytes.bitwise_right_shift(4)}, 2);
    const at::Tensor grouped = values.to(at::kFloat).sub_(8).view({codes.size(0), width / group, group});
    return grouped.mul_(scales.unsqueeze(-1)).view({codes.size(0), width});
  }
  const at::Tensor from = codes.contiguous(), scale = scales.contiguous();
  const uint8_t* bytes = from.const_data_ptr<uint8_t>();
  const c10::Half* all = scale.const_data_ptr<c10::Half>();
  return rows_on_cpu(codes, width, [&, half, width, group](int64_t row, float* to) {
    const uint8_t* byte = bytes + row * half;
    const c10::Half* own = all + row * (width / group);
    for (int64_t begin = 0; begin < width; begin += 32, byte += 16, to += 32) {
      const float s = own[begin / group];
      for (int64_t i = 0; i < 16; ++i) {
        to[i] = static_cast<float>((byte[i] & 15) - 8) * s;
        to[i + 16] = static_cast<float>((byte[i] >> 4) - 8) * s;
      }
    }
  });
}

at::Tensor int4_product(const at::Tensor& x, const at::Tensor& codes, const at::Tensor& scales, int64_t group) {
  return product(x, dense_codes(operations::PackedFormat::kInt4, codes, scales), [&](int64_t begin, int64_t end) {
    return int4_rows(codes.narrow(0, begin, end - begin), scales.narrow(0, begin, end - begin), group);
  });
}

}  // namespace easydel::quantization
