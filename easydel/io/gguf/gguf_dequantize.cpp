#include "easydel/io/gguf/gguf_dequantize.h"

#include <torch/headeronly/util/Half.h>

#include <cassert>
#include <cstring>

namespace easydel {
namespace {

// The blocks as ggml-common.h lays them out, without padding. d is a scale, m or dmin is subtracted.
struct Half {
  uint16_t bits;
  float value() const { return c10::detail::fp16_ieee_to_fp32_value(bits); }
};
struct Q4_0 {
  Half d;
  uint8_t qs[16];
};
struct Q4_1 {
  Half d, m;
  uint8_t qs[16];
};
struct Q5_0 {
  Half d;
  uint8_t qh[4], qs[16];
};
struct Q5_1 {
  Half d, m;
  uint8_t qh[4], qs[16];
};
struct Q8_0 {
  Half d;
  int8_t qs[32];
};
struct Q4_K {
  Half d, dmin;
  uint8_t scales[12], qs[128];
};
struct Q5_K {
  Half d, dmin;
  uint8_t scales[12], qh[32], qs[128];
};
struct Q6_K {
  uint8_t ql[128], qh[64];
  int8_t scales[16];
  Half d;
};

// In the blocks of 32 the low nibbles are the first half and the high nibbles the second.
void dequantize(const Q4_0& block, float* out) {
  const float d = block.d.value();
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((block.qs[i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((block.qs[i] >> 4) - 8);
  }
}

void dequantize(const Q4_1& block, float* out) {
  const float d = block.d.value(), m = block.m.value();
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(block.qs[i] & 15) + m;
    out[i + 16] = d * static_cast<float>(block.qs[i] >> 4) + m;
  }
}

// The fifth bits of all 32, as bit 4.
void fifth_bits(const uint8_t (&qh)[4], uint8_t (&out)[32]) {
  for (int i = 0; i < 32; ++i) out[i] = static_cast<uint8_t>(((qh[i / 8] >> (i % 8)) & 1) << 4);
}

void dequantize(const Q5_0& block, float* out) {
  const float d = block.d.value();
  uint8_t high[32];
  fifth_bits(block.qh, high);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(((block.qs[i] & 15) | high[i]) - 16);
    out[i + 16] = d * static_cast<float>(((block.qs[i] >> 4) | high[i + 16]) - 16);
  }
}

void dequantize(const Q5_1& block, float* out) {
  const float d = block.d.value(), m = block.m.value();
  uint8_t high[32];
  fifth_bits(block.qh, high);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((block.qs[i] & 15) | high[i]) + m;
    out[i + 16] = d * static_cast<float>((block.qs[i] >> 4) | high[i + 16]) + m;
  }
}

void dequantize(const Q8_0& block, float* out) {
  const float d = block.d.value();
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(block.qs[i]);
}

// Eight scales and eight minima of 6 bits in 12 bytes.
struct ScaleMin {
  float scale, min;
};
ScaleMin scale_min(const uint8_t (&packed)[12], int i, float d, float dmin) {
  const int scale = i < 4 ? packed[i] & 63 : (packed[i + 4] & 15) | ((packed[i - 4] >> 6) << 4);
  const int min = i < 4 ? packed[i + 4] & 63 : (packed[i + 4] >> 4) | ((packed[i] >> 6) << 4);
  return {d * static_cast<float>(scale), dmin * static_cast<float>(min)};
}

void dequantize(const Q4_K& block, float* out) {
  const float d = block.d.value(), dmin = block.dmin.value();
  for (int pair = 0; pair < 4; ++pair, out += 64) {
    const ScaleMin low = scale_min(block.scales, 2 * pair, d, dmin);
    const ScaleMin high = scale_min(block.scales, 2 * pair + 1, d, dmin);
    const uint8_t* qs = block.qs + 32 * pair;
    for (int i = 0; i < 32; ++i) out[i] = low.scale * static_cast<float>(qs[i] & 15) - low.min;
    for (int i = 0; i < 32; ++i) out[i + 32] = high.scale * static_cast<float>(qs[i] >> 4) - high.min;
  }
}

void dequantize(const Q5_K& block, float* out) {
  const float d = block.d.value(), dmin = block.dmin.value();
  for (int pair = 0; pair < 4; ++pair, out += 64) {
    const ScaleMin low = scale_min(block.scales, 2 * pair, d, dmin);
    const ScaleMin high = scale_min(block.scales, 2 * pair + 1, d, dmin);
    const uint8_t* qs = block.qs + 32 * pair;
    for (int i = 0; i < 32; ++i) {
      const int q = (qs[i] & 15) | (((block.qh[i] >> (2 * pair)) & 1) << 4);
      out[i] = low.scale * static_cast<float>(q) - low.min;
    }
    for (int i = 0; i < 32; ++i) {
      const int q = (qs[i] >> 4) | (((block.qh[i] >> (2 * pair + 1)) & 1) << 4);
      out[i + 32] = high.scale * static_cast<float>(q) - high.min;
    }
  }
}

void dequantize(const Q6_K& block, float* out) {
  const float d = block.d.value();
  // Each quarter of a half block takes a nibble of ql and two bits of qh; sixteen numbers share a scale.
  for (int half = 0; half < 2; ++half) {
    for (int quarter = 0; quarter < 4; ++quarter, out += 32) {
      const uint8_t* ql = block.ql + 64 * half + 32 * (quarter % 2);
      const uint8_t* qh = block.qh + 32 * half;
      const int8_t* scales = block.scales + 8 * half + 2 * quarter;
      for (int part = 0; part < 2; ++part) {
        const float scale = d * static_cast<float>(scales[part]);
        for (int i = 16 * part; i < 16 * part + 16; ++i) {
          const int q = ((ql[i] >> (4 * (quarter / 2))) & 15) | (((qh[i] >> (2 * quarter)) & 3) << 4);
          out[i] = scale * static_cast<float>(q - 32);
        }
      }
    }
  }
}

template <class Block>
void dequantize_all(const GgmlType& type, const std::byte* blocks, int64_t count, float* out) {
  assert(type.block_bytes == sizeof(Block));
  for (int64_t i = 0; i < count; ++i) {
    Block block;
    std::memcpy(&block, blocks + i * static_cast<int64_t>(sizeof(Block)), sizeof(Block));
    dequantize(block, out + i * type.block_elements);
  }
}

}  // namespace

void gguf_dequantize(const GgmlType& type, const std::byte* blocks, int64_t count, float* out) {
  switch (type.id) {
    case 2: return dequantize_all<Q4_0>(type, blocks, count, out);
    case 3: return dequantize_all<Q4_1>(type, blocks, count, out);
    case 6: return dequantize_all<Q5_0>(type, blocks, count, out);
    case 7: return dequantize_all<Q5_1>(type, blocks, count, out);
    case 8: return dequantize_all<Q8_0>(type, blocks, count, out);
    case 12: return dequantize_all<Q4_K>(type, blocks, count, out);
    case 13: return dequantize_all<Q5_K>(type, blocks, count, out);
    case 14: return dequantize_all<Q6_K>(type, blocks, count, out);
    default: assert(false && "this type is plain or not readable");
  }
}

}  // namespace easydel
