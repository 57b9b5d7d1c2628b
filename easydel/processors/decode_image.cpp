#include "easydel/processors/decode_image.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/processors/codecs/raster.h"

namespace easydel {
namespace {

Raster decode(const DecodeCall& call) {
  const std::string_view b = call.bytes;
  if (b.starts_with("\xff\xd8\xff")) return decode_jpeg(call);
  if (b.starts_with("\x89PNG\r\n\x1a\n")) return decode_png(call);
  if (b.size() >= 12 && b.starts_with("RIFF") && b.substr(8, 4) == "WEBP") return decode_webp(call);
  if (b.starts_with("GIF87a") || b.starts_with("GIF89a")) return decode_gif(call);
  if (b.starts_with("BM")) return decode_bmp(call);
  fail<NotSupportedError>(call.where, "a picture is a JPEG, PNG, WebP, GIF or BMP file; got ", b.size(),
                          " bytes that begin like none of them.");
}

// Over white, in the whole numbers that Pillow's alpha_composite computes with.
void put_over_white(Raster& raster) {
  constexpr int kBits = 7;
  for (std::size_t i = 0; i < raster.rgba.size(); i += 4) {
    const int alpha = raster.rgba[i + 3];
    for (std::size_t c = i; c < i + 3; ++c) {
      if (alpha == 0) {
        raster.rgba[c] = 255;
        continue;
      }
      const int own = alpha << kBits;
      const int sum = raster.rgba[c] * own + 255 * ((255 << kBits) - own) + (0x80 << kBits);
      raster.rgba[c] = static_cast<uint8_t>((((sum >> 8) + sum) >> 8) >> kBits);
    }
  }
}

}  // namespace

at::Tensor decode_image(std::string_view bytes, const DecodeImageOptions& options, const std::string& name) {
  const std::string where = "[decode_image] " + (name.empty() ? "" : name + ": ");
  Raster raster = upright(decode({bytes, options.max_pixels, where}));
  if (raster.has_alpha && options.alpha == Alpha::OverWhite) put_over_white(raster);
  const at::Tensor pixels = at::from_blob(raster.rgba.data(), {raster.height, raster.width, 4}, at::kByte);
  return pixels.narrow(2, 0, 3).permute({2, 0, 1}).clone(at::MemoryFormat::Contiguous);  // the raster goes away
}

at::Tensor load_image(const std::filesystem::path& path, const DecodeImageOptions& options) {
  return decode_image(read_file(path), options, path.string());
}

}  // namespace easydel
