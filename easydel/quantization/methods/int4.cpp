// int4: codes from 0 to 15 that stand for (code - 8) * scale, with a float16 scale for each group of columns. The scale
// is the one of two with the smaller squared error: the largest value has the code 0, or 15.
#include "easydel/quantization/methods/int4.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/operations/threading/parallel.h"
#include "easydel/quantization/packed_products.h"

namespace easydel::quantization {
namespace {

constexpr int64_t kUnit = 32;  // codes are packed in runs of this length
using Of = PartDim::Of;

int code_of(float value, float inverse) {
  return static_cast<int>(std::clamp(std::nearbyint(value * inverse) + 8.0F, 0.0F, 15.0F));
}

}  // namespace

std::vector<Part> Int4::parts(int64_t, int64_t in) const {
  check_group(settings_, kUnit, in);
  return {{"weight", uint8, {{Of::Rows}, {Of::Columns, 2}}},
          {"weight.scales", float16, {{Of::Rows}, {Of::Columns, settings_.group_size}}}};
}

std::vector<at::Tensor> Int4::quantize(const at::Tensor& given, const ChannelStatistics*) const {
  const int64_t group = settings_.group_size;
  const at::Tensor matrix = given.contiguous();
  const at::Tensor values = at::empty(matrix.sizes(), at::kByte);
  const at::Tensor scales = at::empty({matrix.size(0), matrix.size(1) / group}, at::kHalf);
  const float* from = matrix.const_data_ptr<float>();
  uint8_t* to = values.mutable_data_ptr<uint8_t>();
  c10::Half* scale = scales.mutable_data_ptr<c10::Half>();
  operations::for_rows(scales.numel(), group, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const float* x = from + block * group;
      float extreme = 0;
      for (int64_t i = 0; i < group; ++i)
        if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
      c10::Half best = 0.0F;
      double least = INFINITY;
      for (const float divisor : {-8.0F, 7.0F}) {
        const c10::Half candidate = std::clamp(extreme / divisor, -65504.0F, 65504.0F);
        const float s = candidate, inverse = s == 0 ? 0 : 1 / s;
        double error = 0;
        for (int64_t i = 0; i < group; ++i) {
          const float rest = x[i] - static_cast<float>(code_of(x[i], inverse) - 8) * s;
          error += rest * rest;
        }
        if (error < least) least = error, best = candidate;
      }
      scale[block] = best;
      const float s = best, inverse = s == 0 ? 0 : 1 / s;
      for (int64_t i = 0; i < group; ++i) to[block * group + i] = static_cast<uint8_t>(code_of(x[i], inverse));
    }
  });
  return {int4_pack(values), scales};
}

at::Tensor Int4::dequantize(const LocalShard& held, int64_t begin, int64_t end) const {
  return int4_rows(held.parts[0].narrow(0, begin, end - begin), held.parts[1].narrow(0, begin, end - begin),
                   settings_.group_size);
}

at::Tensor Int4::multiply(const at::Tensor& x, const LocalShard& held) const {
  return held.cut ? Method::multiply(x, held) : int4_product(x, held.parts[0], held.parts[1], settings_.group_size);
}

std::shared_ptr<const Method> make_int4(const QuantizeOptions& given) {
  QuantizeOptions settings = given;
  if (settings.group_size == 0) settings.group_size = kUnit;
  return std::make_shared<Int4>(settings);
}

}  // namespace easydel::quantization
