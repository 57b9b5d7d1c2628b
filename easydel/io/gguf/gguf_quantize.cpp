#include "easydel/io/gguf/gguf_quantize.h"

#include <torch/headeronly/util/Half.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

namespace easydel {
namespace {

uint16_t half_bits(float value) { return c10::detail::fp16_ieee_from_fp32_value(value); }
float half_value(uint16_t bits) { return c10::detail::fp16_ieee_to_fp32_value(bits); }
void put_half(std::byte* at, uint16_t bits) { std::memcpy(at, &bits, sizeof bits); }
float inverse(float value) { return value == 0 ? 0.0F : 1.0F / value; }
int nearest(float value, int low, int high) { return std::clamp(static_cast<int>(std::lround(value)), low, high); }

void quantize_q8_0(const float* x, std::byte* block) {
  float largest = 0;
  for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float d = largest / 127.0F, id = inverse(d);
  put_half(block, half_bits(d));
  for (int i = 0; i < 32; ++i) block[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(x[i] * id)));
}

void quantize_q4_0(const float* x, std::byte* block) {
  float extreme = 0;
  for (int i = 0; i < 32; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  const float d = extreme / -8.0F, id = inverse(d);
  put_half(block, half_bits(d));
  const auto code = [&](float value) { return std::min(15, static_cast<int>(value * id + 8.5F)); };
  for (int i = 0; i < 16; ++i) block[2 + i] = static_cast<std::byte>(code(x[i]) | (code(x[i + 16]) << 4));
}

// A scale for codes from -32 to 31 with the least squared error, large values counting more.
float best_scale(const float* x, int count) {
  float extreme = 0;
  for (int i = 0; i < count; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  if (std::fabs(extreme) < 1e-15F) return 0;
  float best = 0, least = INFINITY;
  for (int step = -9; step <= 9; ++step) {
    const float id = -(32.0F + 0.1F * static_cast<float>(step)) / extreme;
    double xq = 0, qq = 0;
    for (int i = 0; i < count; ++i) {
      const double q = nearest(x[i] * id, -32, 31), w = static_cast<double>(x[i]) * x[i];
      xq += w * x[i] * q;
      qq += w * q * q;
    }
    if (qq <= 0) continue;
    const double scale = xq / qq;  // the least squares of these codes
    double error = 0;
    for (int i = 0; i < count; ++i) {
      const double rest = x[i] - scale * nearest(x[i] * id, -32, 31);
      error += static_cast<double>(x[i]) * x[i] * rest * rest;
    }
    if (error < least) least = static_cast<float>(error), best = static_cast<float>(scale);
  }
  return best;
}

// Sixteen groups of 16 with an 8-bit scale each; codes of 6 bits.
void quantize_q6_k(const float* x, std::byte* block) {
  float scales[16], largest = 0;
  for (int g = 0; g < 16; ++g) {
    scales[g] = best_scale(x + 16 * g, 16);
    if (std::fabs(scales[g]) > std::fabs(largest)) largest = scales[g];
  }
  std::memset(block, 0, 210);
  const uint16_t bits = half_bits(largest / -128.0F);
  const float d = half_value(bits), id = inverse(d);
  put_half(block + 208, bits);
  uint8_t codes[256];
  for (int g = 0; g < 16; ++g) {
    const int scale = nearest(scales[g] * id, -128, 127);
    block[192 + g] = static_cast<std::byte>(static_cast<int8_t>(scale));
    const float step = inverse(d * static_cast<float>(scale));
    for (int i = 16 * g; i < 16 * g + 16; ++i) codes[i] = static_cast<uint8_t>(nearest(x[i] * step, -32, 31) + 32);
  }
  for (int half = 0; half < 2; ++half) {
    const uint8_t* own = codes + 128 * half;
    for (int i = 0; i < 32; ++i) {
      const auto low = [&](int quarter) { return own[32 * quarter + i] & 15; };
      const auto high = [&](int quarter) { return (own[32 * quarter + i] >> 4) << (2 * quarter); };
      block[64 * half + i] = static_cast<std::byte>(low(0) | (low(2) << 4));
      block[64 * half + 32 + i] = static_cast<std::byte>(low(1) | (low(3) << 4));
      block[128 + 32 * half + i] = static_cast<std::byte>(high(0) | high(1) | high(2) | high(3));
    }
  }
}

struct ScaleMin {
  float scale = 0, min = 0;  // a value is scale * code - min, with min >= 0
};

// For codes from 0 to 15 of 32 values, values that stand out counting more.
ScaleMin best_scale_min(const float* x) {
  float low = 0, high = x[0], squares = 0;
  for (int i = 0; i < 32; ++i) low = std::min(low, x[i]), high = std::max(high, x[i]), squares += x[i] * x[i];
  if (high <= low) return {0, -low};
  const float mean = std::sqrt(squares / 32);
  ScaleMin best{(high - low) / 15.0F, -low};
  double least = INFINITY;
  for (int step = 0; step <= 21; ++step) {
    const float id = step == 0 ? 15.0F / (high - low) : (14.0F + 0.1F * static_cast<float>(step - 1)) / (high - low);
    double w = 0, wq = 0, wqq = 0, wx = 0, wxq = 0;
    int codes[32];
    for (int i = 0; i < 32; ++i) {
      codes[i] = nearest((x[i] - low) * id, 0, 15);
      const double weight = mean + std::fabs(x[i]), q = codes[i];
      w += weight, wq += weight * q, wqq += weight * q * q, wx += weight * x[i], wxq += weight * x[i] * q;
    }
    const double determinant = w * wqq - wq * wq;
    if (determinant <= 0) continue;
    double scale = (w * wxq - wx * wq) / determinant, min = (wqq * wx - wq * wxq) / determinant;
    if (min > 0) min = 0, scale = wxq / wqq;
    double error = 0;
    for (int i = 0; i < 32; ++i) {
      const double rest = scale * codes[i] + min - x[i];
      error += (mean + std::fabs(x[i])) * rest * rest;
    }
    if (error < least) least = error, best = {static_cast<float>(scale), static_cast<float>(-min)};
  }
  return best;
}

// Eight groups of 32 with a 6-bit scale and a 6-bit minimum each; codes of 4 bits.
void quantize_q4_k(const float* x, std::byte* block) {
  ScaleMin groups[8];
  float largest = 0, largest_min = 0;
  for (int g = 0; g < 8; ++g) {
    groups[g] = best_scale_min(x + 32 * g);
    largest = std::max(largest, groups[g].scale);
    largest_min = std::max(largest_min, groups[g].min);
  }
  std::memset(block, 0, 144);
  const uint16_t d_bits = half_bits(largest / 63.0F), min_bits = half_bits(largest_min / 63.0F);
  const float d = half_value(d_bits), dmin = half_value(min_bits);
  put_half(block, d_bits);
  put_half(block + 2, min_bits);
  uint8_t codes[256];
  std::byte* packed = block + 4;
  for (int g = 0; g < 8; ++g) {
    const auto scale = static_cast<uint8_t>(nearest(groups[g].scale * inverse(d), 0, 63));
    const auto min = static_cast<uint8_t>(nearest(groups[g].min * inverse(dmin), 0, 63));
    if (g < 4) {
      packed[g] |= static_cast<std::byte>(scale);
      packed[g + 4] |= static_cast<std::byte>(min);
    } else {
      packed[g + 4] = static_cast<std::byte>((scale & 15) | ((min & 15) << 4));
      packed[g - 4] |= static_cast<std::byte>((scale >> 4) << 6);
      packed[g] |= static_cast<std::byte>((min >> 4) << 6);
    }
    const float step = inverse(d * static_cast<float>(scale)), offset = dmin * static_cast<float>(min);
    for (int i = 32 * g; i < 32 * g + 32; ++i) codes[i] = static_cast<uint8_t>(nearest((x[i] + offset) * step, 0, 15));
  }
  for (int pair = 0; pair < 4; ++pair) {
    for (int i = 0; i < 32; ++i)
      block[16 + 32 * pair + i] = static_cast<std::byte>(codes[64 * pair + i] | (codes[64 * pair + 32 + i] << 4));
  }
}

using Quantizer = void (*)(const float* x, std::byte* block);

Quantizer quantizer_of(const GgmlType& type) {
  switch (type.id) {
    case 2: return quantize_q4_0;
    case 8: return quantize_q8_0;
    case 12: return quantize_q4_k;
    case 14: return quantize_q6_k;
    default: return nullptr;
  }
}

}  // namespace

bool can_quantize(const GgmlType& type) { return quantizer_of(type) != nullptr; }

void gguf_quantize(const GgmlType& type, const float* values, int64_t count, std::byte* blocks) {
  const Quantizer quantize = quantizer_of(type);
  assert(quantize != nullptr);
  for (int64_t i = 0; i < count; ++i) quantize(values + i * type.block_elements, blocks + i * type.block_bytes);
}

}  // namespace easydel
