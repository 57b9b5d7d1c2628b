#include <array>
#include <bit>
#include <cstdlib>

#include "easydel/core/error.h"
#include "easydel/processors/codecs/raster.h"

namespace easydel {
namespace {

class BmpReader {
 public:
  explicit BmpReader(const DecodeCall& call) : call_(call) {}

  int64_t number(int64_t at, int bytes) const {
    require<FormatError>(at >= 0 && at + bytes <= static_cast<int64_t>(call_.bytes.size()), call_.where,
                         "the BMP data must be complete and valid; got ", call_.bytes.size(), " bytes.");
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(call_.bytes[at + i]);
    return static_cast<int64_t>(value);
  }
  int64_t signed_number(int64_t at) const { return static_cast<int32_t>(number(at, 4)); }

 private:
  const DecodeCall& call_;
};

// Bits of a pixel that are one colour.
struct Mask {
  uint32_t bits = 0;
  int value(uint32_t pixel) const {
    if (bits == 0) return 255;
    const int shift = std::countr_zero(bits);
    const uint32_t top = bits >> shift;
    return static_cast<int>(((pixel & bits) >> shift) * 255 / top);
  }
};

}  // namespace

Raster decode_bmp(const DecodeCall& call) {
  const BmpReader in(call);
  const int64_t data = in.number(10, 4);
  const int64_t header = in.number(14, 4);
  const bool is_old = header == 12;
  require<FormatError>(is_old || (header >= 40 && header <= 124), call.where,
                       "the BMP header must have 12 or 40 to 124 bytes; got ", header, ".");
  const int64_t width = is_old ? in.number(18, 2) : in.signed_number(18);
  const int64_t rows = is_old ? in.number(20, 2) : in.signed_number(22);
  const int64_t bits = in.number(is_old ? 24 : 28, 2);
  const int64_t compression = is_old ? 0 : in.number(30, 4);
  const int64_t stated_colors = is_old ? 0 : in.number(46, 4);
  require<NotSupportedError>(compression == 0 || compression == 3, call.where,
                             "a BMP must be stored without compression; got kind ", compression, ".");
  require<FormatError>(bits == 1 || bits == 4 || bits == 8 || bits == 16 || bits == 24 || bits == 32, call.where,
                       "a BMP must have 1, 4, 8, 16, 24 or 32 bits for each pixel; got ", bits, ".");
  Raster raster;
  raster.resize(width, std::abs(rows), call.max_pixels, call.where);

  std::array<Mask, 4> masks{};  // red, green, blue, alpha
  if (bits == 16) masks = {Mask{0x7c00}, Mask{0x03e0}, Mask{0x001f}, Mask{0}};
  if (bits == 32) masks = {Mask{0xff0000}, Mask{0xff00}, Mask{0xff}, Mask{0}};
  if (compression == 3) {
    require<FormatError>(bits == 16 || bits == 32, call.where, "a BMP with masks must have 16 or 32 bits; got ", bits,
                         ".");
    for (int i = 0; i < (header >= 56 ? 4 : 3); ++i)
      masks[static_cast<std::size_t>(i)].bits = static_cast<uint32_t>(in.number(54 + 4 * i, 4));
    require<FormatError>(masks[0].bits && masks[1].bits && masks[2].bits, call.where,
                         "the masks of a BMP must have bits; got none for a colour.");
    raster.has_alpha = masks[3].bits != 0;
  }

  std::vector<std::array<int, 3>> palette;
  if (bits <= 8) {
    const int64_t colors = stated_colors > 0 && stated_colors <= 256 ? stated_colors : int64_t{1} << bits;
    const int64_t entry = is_old ? 3 : 4;
    const int64_t first = 14 + header;
    for (int64_t i = 0; i < 256; ++i) {  // a grey ramp stands behind a palette that is too short
      std::array<int, 3> color{static_cast<int>(i), static_cast<int>(i), static_cast<int>(i)};
      if (i < colors) {
        for (int c = 0; c < 3; ++c)
          color[static_cast<std::size_t>(c)] = static_cast<int>(in.number(first + entry * i + 2 - c, 1));
      }
      palette.push_back(color);
    }
  }

  const int64_t stride = (width * bits + 31) / 32 * 4;
  for (int64_t r = 0; r < raster.height; ++r) {
    const int64_t y = rows < 0 ? r : raster.height - 1 - r;
    const int64_t start = data + r * stride;
    for (int64_t x = 0; x < width; ++x) {
      if (bits <= 8) {
        const int64_t per_byte = 8 / bits;
        const int64_t byte = in.number(start + x / per_byte, 1);
        const auto index = static_cast<std::size_t>(byte >> (8 - bits * (x % per_byte + 1)) & ((1 << bits) - 1));
        raster.set(y, x, palette[index][0], palette[index][1], palette[index][2]);
      } else if (bits == 24) {
        const int64_t at = start + 3 * x;
        raster.set(y, x, static_cast<int>(in.number(at + 2, 1)), static_cast<int>(in.number(at + 1, 1)),
                   static_cast<int>(in.number(at, 1)));
      } else {
        const int bytes = static_cast<int>(bits / 8);
        const auto pixel = static_cast<uint32_t>(in.number(start + bytes * x, bytes));
        raster.set(y, x, masks[0].value(pixel), masks[1].value(pixel), masks[2].value(pixel), masks[3].value(pixel));
      }
    }
  }
  return raster;
}

}  // namespace easydel
