#include "easydel/processors/codecs/raster.h"
#include "fuzz.h"

using namespace easydel;

// The format that the first bytes say, as decode_image takes it; an image that is read stands upright in one step
// more.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  constexpr int64_t kMaxPixels = 1 << 16;
  return fuzz::refuse_or([&] {
    const std::string where = "[fuzz] ";
    const std::string_view b = fuzz::as_text(data, size);
    const DecodeCall call{b, kMaxPixels, where};
    const auto read = [&]() -> Raster {
      if (b.starts_with("\xff\xd8\xff")) return decode_jpeg(call);
      if (b.starts_with("\x89PNG\r\n\x1a\n")) return decode_png(call);
      if (b.size() >= 12 && b.starts_with("RIFF") && b.substr(8, 4) == "WEBP") return decode_webp(call);
      if (b.starts_with("GIF87a") || b.starts_with("GIF89a")) return decode_gif(call);
      if (b.starts_with("BM")) return decode_bmp(call);
      const int turned = exif_orientation(b);
      if (turned < 1 || turned > 8) fuzz::found("an orientation that there is not");
      return {};
    };
    const Raster raster = upright(read());
    if (raster.width * raster.height > kMaxPixels) fuzz::found("more pixels than are allowed");
    if (static_cast<int64_t>(raster.rgba.size()) != 4 * raster.width * raster.height) fuzz::found("pixels are missing");
    fuzz::touch(std::as_bytes(std::span(raster.rgba)));
  });
}
