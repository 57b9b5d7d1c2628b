#include "easydel/optim/rules/blockwise.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <string>

namespace easydel::optim {
namespace {

constexpr int64_t kCodes = 256;

at::Tensor make_code_book(bool is_signed) {
  constexpr int kDecades = 7;
  std::vector<at::Tensor> parts;
  for (int i = 0; i < kDecades; ++i) {
    const int64_t items = (int64_t{1} << (is_signed ? i : i + 1)) + 1;
    const at::Tensor bounds = at::linspace(0.1, 1.0, items, at::kFloat);
    const at::Tensor means = (bounds.slice(0, 0, items - 1) + bounds.slice(0, 1)) / 2.0;
    const double size = std::pow(10.0, i - (kDecades - 1));
    parts.push_back(means * size);
    if (is_signed) parts.push_back(means * -size);
  }
  parts.push_back(at::tensor({0.0F, 1.0F}));
  return std::get<0>(at::sort(at::cat(parts)));
}

// Halfway between neighbours: a value above the i-th belongs to a code above i.
at::Tensor make_midpoints(const at::Tensor& book) { return (book.slice(0, 0, kCodes - 1) + book.slice(0, 1)) / 2.0; }

// The book on the CPU, and what finds a value's code there.
struct CpuBook {
  explicit CpuBook(bool is_signed) {
    const at::Tensor book = make_code_book(is_signed), middle = make_midpoints(book);
    std::copy_n(book.const_data_ptr<float>(), kCodes, values.begin());
    std::copy_n(middle.const_data_ptr<float>(), kCodes - 1, midpoints.begin());
    midpoints.back() = INFINITY;
    for (uint32_t upper = 0; upper <= 0xffff; ++upper) {
      const bool negative = (upper & 0x8000U) != 0;
      const auto lowest = std::bit_cast<float>(upper << 16 | (negative ? 0xffffU : 0U));
      const auto found = std::lower_bound(midpoints.begin(), midpoints.end() - 1, std::isnan(lowest) ? 0.0F : lowest);
      first[upper] = static_cast<uint8_t>(found - midpoints.begin());
    }
  }
  uint8_t code(float x) const {
    uint8_t at = first[std::bit_cast<uint32_t>(x) >> 16];
    while (x > midpoints[at]) ++at;
    return at;
  }
  std::array<float, kCodes> values, midpoints;
  std::array<uint8_t, 1 << 16> first;  // the code of the lowest float with these upper 16 bits
};

const CpuBook& cpu_book(bool is_signed) {
  static const CpuBook with_sign(true), without(false);
  return is_signed ? with_sign : without;
}

// Copies of a table for each device.
at::Tensor on_device(const std::string& name, at::Device device, at::Tensor (*make)()) {
  static std::mutex mutex;
  static std::map<std::string, at::Tensor> known;
  const std::lock_guard lock(mutex);
  at::Tensor& table = known[name + device.str()];
  if (!table.defined()) table = make().to(device);
  return table;
}

at::Tensor midpoints(bool is_signed, at::Device device) {
  return is_signed ? on_device("midpoints ", device, [] { return make_midpoints(make_code_book(true)); })
                   : on_device("unsigned midpoints ", device, [] { return make_midpoints(make_code_book(false)); });
}

// One scale for each element.
at::Tensor spread(const at::Tensor& absmax, int64_t count) {
  return absmax.repeat_interleave(kBlockSize).narrow(0, 0, count);
}

}  // namespace

at::Tensor dynamic_code_book(bool is_signed, at::Device device) {
  return is_signed ? on_device("book ", device, [] { return make_code_book(true); })
                   : on_device("unsigned book ", device, [] { return make_code_book(false); });
}

at::Tensor dequantize_scaled(const at::Tensor& codes, const at::Tensor& scales, bool is_signed) {
  return dynamic_code_book(is_signed, codes.device()).index_select(0, codes.to(at::kInt)).mul_(scales);
}

at::Tensor quantize_scaled(const at::Tensor& values, const at::Tensor& scales, bool is_signed) {
  const at::Tensor ratio = (values / scales).masked_fill_(scales == 0, 0);
  return at::bucketize(ratio, midpoints(is_signed, values.device()), /*out_int32=*/true).to(at::kByte);
}

at::Tensor dequantize_blocks(const at::Tensor& codes, const at::Tensor& absmax, bool is_signed) {
  if (!codes.is_cpu()) return dequantize_scaled(codes, spread(absmax, codes.numel()), is_signed);
  const at::Tensor out = at::empty(codes.sizes(), codes.options().dtype(at::kFloat));
  const CpuBook& book = cpu_book(is_signed);
  const uint8_t* from = codes.const_data_ptr<uint8_t>();
  float* to = out.mutable_data_ptr<float>();
  for (int64_t begin = 0; begin < codes.numel(); begin += kBlockSize) {
    const float scale = absmax.const_data_ptr<float>()[begin / kBlockSize];
    const int64_t end = std::min(begin + kBlockSize, codes.numel());
    for (int64_t i = begin; i < end; ++i) to[i] = book.values[from[i]] * scale;
  }
  return out;
}

void quantize_blocks(const at::Tensor& values, bool is_signed, const at::Tensor& codes, const at::Tensor& absmax) {
  const int64_t count = values.numel();
  if (!values.is_cpu()) {
    const int64_t missing = absmax.numel() * kBlockSize - count;
    const at::Tensor whole = missing > 0 ? at::constant_pad_nd(values, {0, missing}) : values;
    absmax.copy_(whole.view({-1, kBlockSize}).abs().amax(1));
    codes.copy_(quantize_scaled(values, spread(absmax, count), is_signed));
    return;
  }
  const CpuBook& book = cpu_book(is_signed);
  const float* from = values.const_data_ptr<float>();
  uint8_t* to = codes.mutable_data_ptr<uint8_t>();
  for (int64_t begin = 0; begin < count; begin += kBlockSize) {
    const int64_t end = std::min(begin + kBlockSize, count);
    float scale = 0;
    for (int64_t i = begin; i < end; ++i) scale = std::max(scale, std::abs(from[i]));
    absmax.mutable_data_ptr<float>()[begin / kBlockSize] = scale;
    for (int64_t i = begin; i < end; ++i) to[i] = book.code(scale == 0 ? 0.0F : from[i] / scale);
  }
}

}  // namespace easydel::optim
