#include "easydel/core/error.h"
#include "easydel/processors/codecs/raster.h"

#if EASYDEL_HAS_GIF
#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#endif

namespace easydel {
#if EASYDEL_HAS_GIF
namespace {

int read_gif(GifFileType* gif, GifByteType* to, int count) {
  auto& rest = *static_cast<std::string_view*>(gif->UserData);
  const int got = static_cast<int>(std::min<std::size_t>(rest.size(), static_cast<std::size_t>(count)));
  std::memcpy(to, rest.data(), static_cast<std::size_t>(got));
  rest.remove_prefix(static_cast<std::size_t>(got));
  return got;
}

struct GifReader {
  std::unique_ptr<GifFileType, void (*)(GifFileType*)> file;
  const std::string& where;

  void check(bool good) const {
    if (good) return;
    const char* const text = GifErrorString(file->Error);
    fail<FormatError>(where, "the GIF data must be whole; got: ", text ? text : "an unknown error", ".");
  }
};

// The index that is transparent in the next picture, from the blocks before it; then that picture's own header.
std::optional<int> find_first_picture(const GifReader& reader) {
  std::optional<int> transparent;
  GifFileType* const gif = reader.file.get();
  for (;;) {
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    reader.check(DGifGetRecordType(gif, &type) == GIF_OK);
    require<FormatError>(type != TERMINATE_RECORD_TYPE, reader.where, "a GIF must have a picture; got none.");
    if (type == IMAGE_DESC_RECORD_TYPE) {
      reader.check(DGifGetImageDesc(gif) == GIF_OK);
      return transparent;
    }
    int code = 0;
    GifByteType* block = nullptr;
    reader.check(DGifGetExtension(gif, &code, &block) == GIF_OK);
    while (block) {
      GraphicsControlBlock control;
      if (code == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK) {
        transparent.reset();
        if (control.TransparentColor != NO_TRANSPARENT_COLOR) transparent = control.TransparentColor;
      }
      reader.check(DGifGetExtensionNext(gif, &block) == GIF_OK);
    }
  }
}

}  // namespace

// Of an animation, the first picture.
Raster decode_gif(const DecodeCall& call) {
  std::string_view rest = call.bytes;
  int error = 0;
  const GifReader reader{{DGifOpen(&rest, read_gif, &error), [](GifFileType* file) { DGifCloseFile(file, nullptr); }},
                         call.where};
  require<FormatError>(reader.file != nullptr, call.where, "the GIF header must be whole; got ", call.bytes.size(),
                       " bytes that have none.");
  GifFileType* const gif = reader.file.get();
  const std::optional<int> transparent = find_first_picture(reader);
  const GifImageDesc& frame = gif->Image;
  Raster raster;
  raster.resize(std::max<int64_t>(gif->SWidth, int64_t{frame.Left} + frame.Width),
                std::max<int64_t>(gif->SHeight, int64_t{frame.Top} + frame.Height), call.max_pixels, call.where);
  require<FormatError>(frame.Width > 0 && frame.Height > 0, call.where, "a picture must have pixels; got ", frame.Width,
                       " x ", frame.Height, ".");
  raster.has_alpha = transparent.has_value();
  const ColorMapObject* const colors = frame.ColorMap ? frame.ColorMap : gif->SColorMap;
  const auto put = [&](int64_t y, int64_t x, int index) {
    const int alpha = transparent && index == *transparent ? 0 : 255;
    if (!colors || index >= colors->ColorCount) return raster.set(y, x, index, index, index, alpha);
    const GifColorType& c = colors->Colors[index];
    raster.set(y, x, c.Red, c.Green, c.Blue, alpha);
  };
  for (int64_t y = 0; y < raster.height; ++y) {
    for (int64_t x = 0; x < raster.width; ++x) put(y, x, transparent.value_or(0));
  }
  std::vector<GifPixelType> row(static_cast<std::size_t>(frame.Width));
  const auto read_row = [&](int64_t y) {
    reader.check(DGifGetLine(gif, row.data(), frame.Width) == GIF_OK);
    for (int64_t x = 0; x < frame.Width; ++x) put(frame.Top + y, frame.Left + x, row[static_cast<std::size_t>(x)]);
  };
  if (!frame.Interlace) {
    for (int64_t y = 0; y < frame.Height; ++y) read_row(y);
    return raster;
  }
  constexpr int64_t kPasses[][2] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
  for (const auto& [first, step] : kPasses) {
    for (int64_t y = first; y < frame.Height; y += step) read_row(y);
  }
  return raster;
}
#else
Raster decode_gif(const DecodeCall& call) {
  fail<NotSupportedError>(call.where, "this build reads no GIF; build it with giflib (libgif-dev).");
}
#endif

}  // namespace easydel
