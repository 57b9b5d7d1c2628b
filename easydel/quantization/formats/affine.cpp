#include "easydel/quantization/formats/affine.h"

#include <ATen/ATen.h>

#include "easydel/operations/threading/parallel.h"
#include "easydel/quantization/packed_products.h"

namespace easydel::quantization {
namespace {

bool is_in_order(const at::Tensor& group_of, int64_t group) {
  return at::equal(group_of, at::arange(group_of.size(0), at::kLong).floor_divide_(group));
}

// float16 has more digits than bfloat16, but a narrower range.
bool fits_half(const at::Tensor& scales) {
  const at::Tensor floats = scales.to(at::kFloat);
  return at::equal(floats.to(at::kHalf).to(at::kFloat), floats);
}

}  // namespace

at::Tensor unpack_words(const at::Tensor& given, int64_t bits, int64_t count) {
  const at::Tensor words = given.contiguous();
  const int64_t rows = words.size(0), width = words.size(1), mask = (int64_t{1} << bits) - 1;
  const at::Tensor values = at::empty({rows, count}, at::kByte);
  const auto* from = reinterpret_cast<const uint32_t*>(words.const_data_ptr<int32_t>());
  uint8_t* to = values.mutable_data_ptr<uint8_t>();
  operations::for_rows(rows, count, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const uint32_t* own = from + r * width;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = i * bits, word = at / 32, shift = at % 32;
        uint64_t value = own[word] >> shift;
        if (shift + bits > 32) value |= static_cast<uint64_t>(own[word + 1]) << (32 - shift);
        to[r * count + i] = static_cast<uint8_t>(value & static_cast<uint64_t>(mask));
      }
    }
  });
  return values;
}

at::Tensor pack_words(const at::Tensor& given, int64_t bits) {
  const at::Tensor values = given.contiguous();
  const int64_t rows = values.size(0), count = values.size(1), width = (count * bits + 31) / 32;
  const at::Tensor words = at::zeros({rows, width}, at::kInt);
  const uint8_t* from = values.const_data_ptr<uint8_t>();
  auto* to = reinterpret_cast<uint32_t*>(words.mutable_data_ptr<int32_t>());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = i * bits, word = at / 32, shift = at % 32;
      const uint64_t value = static_cast<uint64_t>(from[r * count + i]) << shift;
      to[r * width + word] |= static_cast<uint32_t>(value);
      if (shift + bits > 32) to[r * width + word + 1] |= static_cast<uint32_t>(value >> 32);
    }
  }
  return words;
}

at::Tensor affine_values(const at::Tensor& given, const at::Tensor& scales, const at::Tensor& zeros, double middle,
                         int64_t group, const at::Tensor& group_of) {
  const at::Tensor codes = given.contiguous(), scale = scales.to(at::kFloat).contiguous();
  const at::Tensor zero = zeros.defined() ? zeros.to(at::kFloat).contiguous() : at::Tensor();
  const at::Tensor places = group_of.defined() ? group_of.contiguous() : at::Tensor();
  const int64_t out = codes.size(0), in = codes.size(1), groups = scale.size(1);
  const at::Tensor values = at::empty({out, in}, at::kFloat);
  const uint8_t* from = codes.const_data_ptr<uint8_t>();
  const float* s = scale.const_data_ptr<float>();
  const float* z = zero.defined() ? zero.const_data_ptr<float>() : nullptr;
  const int64_t* place = places.defined() ? places.const_data_ptr<int64_t>() : nullptr;
  float* to = values.mutable_data_ptr<float>();
  operations::for_rows(out, in, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t c = 0; c < in; ++c) {
        const int64_t g = r * groups + (place ? place[c] : c / group);
        to[r * in + c] = (static_cast<float>(from[r * in + c]) - (z ? z[g] : static_cast<float>(middle))) * s[g];
      }
    }
  });
  return values;
}

DecodedWeight affine_weight(AffineMatrix given, std::string place) {
  const auto m = std::make_shared<const AffineMatrix>(std::move(given));
  const double middle = static_cast<double>(int64_t{1} << (m->bits - 1));
  DecodedWeight weight;
  weight.shape = {m->out, m->in};
  weight.place = std::move(place);
  weight.dense = [m, middle] {
    return affine_values(m->codes(), m->scales(), m->zeros ? m->zeros() : at::Tensor(), middle, m->group,
                         m->group_of ? m->group_of() : at::Tensor());
  };
  const bool groups = m->bits == 4 && m->group % 32 == 0 && m->in % m->group == 0;
  const bool rows = m->bits == 8 && m->group == m->in && !m->zeros;
  if (!groups && !rows) return weight;
  weight.method = [m, rows]() -> std::shared_ptr<const Method> {
    if (m->group_of && !is_in_order(m->group_of(), m->group)) return nullptr;
    if (rows) return make_method({.method = "8bit"});
    if (m->scale_dtype != float16 && !fits_half(m->scales())) return nullptr;
    return make_method({.method = m->zeros ? "uint4" : "int4", .group_size = m->group});
  };
  weight.parts = [m, rows]() -> std::vector<at::Tensor> {
    if (rows)
      return {m->codes().to(at::kShort).sub_(128).to(at::kChar), m->scales().to(at::kFloat).mul(127.0).view({-1})};
    std::vector<at::Tensor> parts{int4_pack(m->codes()), m->scales().to(at::kHalf).contiguous()};
    if (m->zeros) parts.push_back(m->zeros().to(at::kByte));
    return parts;
  };
  return weight;
}

}  // namespace easydel::quantization
