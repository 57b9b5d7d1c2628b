// A decoded image, and the decoders behind decode_image: one for each format. Each checks the size before it takes
// memory for the pixels, and throws FormatError on broken content.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace easydel {

// Rows from top to bottom, four bytes for each pixel: red, green, blue, alpha.
struct Raster {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgba;
  bool has_alpha = false;  // the format says how transparent the pixels are, even if all are opaque
  int orientation = 1;     // as EXIF counts: 1 is upright

  void resize(int64_t new_width, int64_t new_height, int64_t max_pixels, const std::string& where);
  uint8_t* pixel(int64_t y, int64_t x) { return rgba.data() + 4 * (y * width + x); }
  void set(int64_t y, int64_t x, int r, int g, int b, int a = 255);
};

// `where` begins every message.
struct DecodeCall {
  std::string_view bytes;
  int64_t max_pixels;
  const std::string& where;
};
Raster decode_jpeg(const DecodeCall& call);
Raster decode_png(const DecodeCall& call);
Raster decode_webp(const DecodeCall& call);
Raster decode_gif(const DecodeCall& call);
Raster decode_bmp(const DecodeCall& call);

// The images of an animation as they are shown one after the other, whole, each with the milliseconds that it stays.
using FrameSink = std::function<void(const Raster& frame, int64_t milliseconds)>;
void decode_webp_frames(const DecodeCall& call, const FrameSink& sink);
void decode_gif_frames(const DecodeCall& call, const FrameSink& sink);

// The orientation in an EXIF block (a TIFF header and its first directory); 1 where there is none.
int exif_orientation(std::string_view tiff);

// Turned and mirrored so that it stands upright.
Raster upright(Raster raster);

}  // namespace easydel
