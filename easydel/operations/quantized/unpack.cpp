#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/kernels/cuda/packed_weights.h"
#include "easydel/operations/quantized/arguments.h"
#include "easydel/operations/quantized/packed_product.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::operations {
namespace {

using at::Tensor;

bool is_dense(const Tensor& t, at::Device device) { return t.defined() && t.device() == device && t.is_contiguous(); }

at::IntArrayRef sizes_of(const Tensor& t) { return t.defined() ? t.sizes() : at::IntArrayRef{}; }

}  // namespace

const float* nf4_values() {
  static constexpr float kValues[16] = {
      -1.0F,
      -0.6961928009986877F,
      -0.5250730514526367F,
      -0.39491748809814453F,
      -0.28444138169288635F,
      -0.18477343022823334F,
      -0.09105003625154495F,
      0.0F,
      0.07958029955625534F,
      0.16093020141124725F,
      0.24611230194568634F,
      0.33791524171829224F,
      0.44070982933044434F,
      0.5626170039176941F,
      0.7229568362236023F,
      1.0F,
  };
  return kValues;
}

int64_t PackedCodes::group() const { return format == PackedFormat::kInt8 ? in() : in() / scales.size(1); }

int64_t PackedCodes::bytes() const {
  int64_t total = 0;
  for (const Tensor* t : {&codes, &scales, &scale_map, &outer_scales, &scale_offset})
    if (t->defined()) total += static_cast<int64_t>(t->nbytes());
  return total;
}

void PackedCodes::check() const {
  const bool is_int8 = format == PackedFormat::kInt8;
  require<ShapeError>(
      codes.defined() && codes.is_contiguous() && codes.scalar_type() == (is_int8 ? at::kChar : at::kByte),
      "[PackedCodes] codes must be a dense tensor of ", is_int8 ? "int8" : "uint8", "; got ",
      codes.defined() ? c10::toString(codes.scalar_type()) : "none", ".");
  require<ShapeError>(codes.dim() == 2 && codes.size(1) > 0, "[PackedCodes] codes must be [out, in]; got ",
                      codes.sizes(), ".");
  require<ShapeError>(is_dense(scales, codes.device()), "[PackedCodes] scales must be a dense tensor on ",
                      codes.device(), ".");
  const auto type = scales.scalar_type();
  if (is_int8) {
    require<ShapeError>(type == at::kFloat, "[PackedCodes] scales of int8 rows must be Float; got ",
                        c10::toString(type), ".");
    require<ShapeError>(scales.dim() == 1 && scales.size(0) == out(), "[PackedCodes] scales must be [", out(),
                        "]; got ", scales.sizes(), ".");
    return;
  }
  require<ShapeError>(type == at::kFloat || type == at::kHalf || type == at::kByte,
                      "[PackedCodes] scales of groups must be Float, Half or Byte; got ", c10::toString(type), ".");
  require<ShapeError>(scales.dim() == 2 && scales.size(0) == out() && scales.size(1) > 0 &&
                          in() % scales.size(1) == 0 && in() / scales.size(1) % kernels::kNibbleBlock == 0,
                      "[PackedCodes] scales must be [", out(), ", ", in(),
                      " / group], with groups that are a multiple of 32 and divide a row; got ", scales.sizes(), ".");
  if (type != at::kByte) return;
  require<ShapeError>(
      is_dense(scale_map, codes.device()) && scale_map.scalar_type() == at::kFloat && scale_map.numel() == 256,
      "[PackedCodes] scale_map of uint8 scales must be Float [256]; got ", sizes_of(scale_map), ".");
  require<ShapeError>(outer_block > 0 && is_dense(outer_scales, codes.device()) &&
                          outer_scales.scalar_type() == at::kFloat &&
                          outer_scales.numel() >= (scales.numel() + outer_block - 1) / outer_block,
                      "[PackedCodes] outer_scales must be Float, one for each ", outer_block, " of ", scales.numel(),
                      " scales; got ", sizes_of(outer_scales), ".");
  require<ShapeError>(
      is_dense(scale_offset, codes.device()) && scale_offset.scalar_type() == at::kFloat && scale_offset.numel() == 1,
      "[PackedCodes] scale_offset of uint8 scales must be Float [1]; got ", sizes_of(scale_offset), ".");
}

kernels::PackedArgs arguments_of(const PackedCodes& weight) {
  using Kind = kernels::GroupScales::Kind;
  kernels::PackedArgs args;
  args.codes = weight.codes.const_data_ptr();
  args.width = weight.in();
  args.scales.values = weight.scales.const_data_ptr();
  if (weight.format == PackedFormat::kInt8) return args;
  args.table = weight.format == PackedFormat::kNf4 ? nf4_values() : nullptr;
  args.scales.groups = weight.scales.size(1);
  if (weight.scales.scalar_type() == at::kHalf) args.scales.kind = Kind::kFloat16;
  if (weight.scales.scalar_type() == at::kByte) {
    args.scales.kind = Kind::kNested;
    args.scales.map = weight.scale_map.const_data_ptr<float>();
    args.scales.outer = weight.outer_scales.const_data_ptr<float>();
    args.scales.outer_block = weight.outer_block;
    args.scales.offset = *weight.scale_offset.const_data_ptr<float>();
  }
  return args;
}

void unpack_into(const PackedCodes& weight, int64_t begin, int64_t end, float* to) {
  const kernels::QuantizedKernels& table = kernels::quantized();
  const kernels::PackedArgs args = arguments_of(weight);
  for_rows(end - begin, args.width, [&](int64_t from, int64_t until) {
    kernels::PackedArgs part = args;
    part.y = to + from * args.width;
    std::vector<float> scratch(static_cast<std::size_t>((until - from) * args.scales.groups));
    if (weight.format == PackedFormat::kInt8) {
      table.unpack_int8(part, begin + from, begin + until, scratch.data());
      return;
    }
    table.unpack_nibbles(part, begin + from, begin + until, scratch.data());
    if (weight.format != PackedFormat::kNf4) return;
    std::vector<float> row(static_cast<std::size_t>(args.width));
    for (int64_t i = from; i < until; ++i) {
      float* const y = to + i * args.width;
      std::copy(y, y + args.width, row.begin());
      table.join_pairs(row.data(), y, args.width);
    }
  });
}

Tensor unpack_rows(const PackedCodes& weight, int64_t begin, int64_t end, at::ScalarType type) {
  weight.check();
  require<ShapeError>(0 <= begin && begin <= end && end <= weight.out(), "[unpack_rows] rows must be in 0 to ",
                      weight.out(), "; got ", begin, " to ", end, ".");
  if (weight.codes.is_cuda()) return cuda_packed::unpack_rows(weight, begin, end, type);
  const Tensor rows = at::empty({end - begin, weight.in()}, at::kFloat);
  unpack_into(weight, begin, end, rows.mutable_data_ptr<float>());
  return rows.to(type);
}

Tensor unpack(const PackedCodes& weight, at::ScalarType type) { return unpack_rows(weight, 0, weight.out(), type); }

PackedCodes pack_int4(const Tensor& weight, int64_t group) {
  require<ShapeError>(weight.dim() == 2, "[pack_int4] the weight must be [out, in]; got ", weight.sizes(), ".");
  const int64_t out = weight.size(0), in = weight.size(1);
  require<ShapeError>(group > 0 && group % kernels::kNibbleBlock == 0 && in > 0 && in % group == 0,
                      "[pack_int4] a group must be a multiple of 32 and divide the row of ", in, "; got ", group, ".");
  PackedCodes packed;
  packed.format = PackedFormat::kInt4;
  packed.codes = at::empty({out, in / 2}, at::kByte);
  packed.scales = at::empty({out, in / group}, at::kHalf);
  const Tensor dense = weight.detach().to(at::kCPU).to(at::kFloat).contiguous();
  const float* const from = dense.const_data_ptr<float>();
  uint8_t* const codes = packed.codes.mutable_data_ptr<uint8_t>();
  auto* const scales = packed.scales.mutable_data_ptr<at::Half>();
  for_rows(out * in / group, group, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const float* const x = from + g * group;
      const float largest = *std::max_element(x, x + group, [](float a, float b) { return std::abs(a) < std::abs(b); });
      const float scale = largest / -8.0F;
      const double inverse = scale == 0 ? 0.0 : static_cast<double>(1.0F / scale);
      scales[g] = std::clamp(scale, -65504.0F, 65504.0F);
      const auto code = [&](int64_t i) {
        return static_cast<uint8_t>(std::clamp(static_cast<double>(x[i]) * inverse + 8.5, 0.0, 15.0));
      };
      for (int64_t i = 0; i < group; i += 32) {
        for (int64_t j = 0; j < 16; ++j)
          codes[(g * group + i) / 2 + j] = static_cast<uint8_t>(code(i + j) | (code(i + 16 + j) << 4));
      }
    }
  });
  return packed;
}

}  // namespace easydel::operations
