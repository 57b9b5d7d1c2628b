#include "easydel/processors/codecs/raster.h"

#include <utility>

#include "easydel/core/error.h"

namespace easydel {

void Raster::resize(int64_t new_width, int64_t new_height, int64_t max_pixels, const std::string& where) {
  require<FormatError>(new_width > 0 && new_height > 0, where, "an image must have pixels; got ", new_width, " x ",
                       new_height, ".");
  require<FormatError>(new_width <= max_pixels / new_height, where, "an image may have ", max_pixels, " pixels; got ",
                       new_width, " x ", new_height, ". max_pixels raises the limit.");
  width = new_width;
  height = new_height;
  rgba.assign(static_cast<std::size_t>(4 * width * height), 0);
}

void Raster::set(int64_t y, int64_t x, int r, int g, int b, int a) {
  uint8_t* const p = pixel(y, x);
  p[0] = static_cast<uint8_t>(r);
  p[1] = static_cast<uint8_t>(g);
  p[2] = static_cast<uint8_t>(b);
  p[3] = static_cast<uint8_t>(a);
}

int exif_orientation(std::string_view tiff) {
  if (tiff.starts_with(std::string_view("Exif\0\0", 6))) tiff.remove_prefix(6);
  if (tiff.size() < 8) return 1;
  const bool little = tiff.starts_with("II");
  if (!little && !tiff.starts_with("MM")) return 1;
  const auto number = [&](std::size_t at, std::size_t bytes) -> uint64_t {
    uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      value = value << 8 | static_cast<uint8_t>(tiff[at + (little ? bytes - 1 - i : i)]);
    return value;
  };
  const uint64_t directory = number(4, 4);
  if (directory > tiff.size() - 2) return 1;
  const uint64_t count = number(directory, 2);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t entry = directory + 2 + 12 * i;
    if (entry + 12 > tiff.size()) return 1;
    if (number(entry, 2) != 0x0112) continue;
    const uint64_t type = number(entry + 2, 2);
    const uint64_t value = type == 3 ? number(entry + 8, 2) : type == 4 ? number(entry + 8, 4) : 0;
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Raster upright(Raster raster) {
  const int turn = raster.orientation;
  if (turn == 1) return raster;
  const bool transposed = turn >= 5;
  Raster out;
  out.has_alpha = raster.has_alpha;
  out.width = transposed ? raster.height : raster.width;
  out.height = transposed ? raster.width : raster.height;
  out.rgba.resize(raster.rgba.size());
  const int64_t last_x = raster.width - 1, last_y = raster.height - 1;
  for (int64_t y = 0; y < out.height; ++y) {
    for (int64_t x = 0; x < out.width; ++x) {
      int64_t from_y = transposed ? x : y, from_x = transposed ? y : x;
      if (turn == 2 || turn == 3 || turn == 7 || turn == 8) from_x = last_x - from_x;
      if (turn == 3 || turn == 4 || turn == 6 || turn == 7) from_y = last_y - from_y;
      const uint8_t* const p = raster.pixel(from_y, from_x);
      out.set(y, x, p[0], p[1], p[2], p[3]);
    }
  }
  return out;
}

}  // namespace easydel
