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
    fail<FormatError>(where, "the GIF data must be complete and valid; got: ", text ? text : "an unknown error", ".");
  }
};

// What is said before an image.
struct GifFrame {
  std::optional<int> transparent;  // an index of its colours
  int disposal = DISPOSAL_UNSPECIFIED;
  int64_t milliseconds = 0;  // that it stays
};

// The next image, whose header has been read then; none at the end.
std::optional<GifFrame> next_image(const GifReader& reader) {
  GifFrame frame;
  GifFileType* const gif = reader.file.get();
  for (;;) {
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    reader.check(DGifGetRecordType(gif, &type) == GIF_OK);
    if (type == TERMINATE_RECORD_TYPE) return std::nullopt;
    if (type == IMAGE_DESC_RECORD_TYPE) {
      reader.check(DGifGetImageDesc(gif) == GIF_OK);
      require<FormatError>(gif->Image.Width > 0 && gif->Image.Height > 0, reader.where,
                           "an image must have pixels; got ", gif->Image.Width, " x ", gif->Image.Height, ".");
      return frame;
    }
    int code = 0;
    GifByteType* block = nullptr;
    reader.check(DGifGetExtension(gif, &code, &block) == GIF_OK);
    while (block) {
      GraphicsControlBlock control;
      if (code == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK) {
        frame = {.disposal = control.DisposalMode, .milliseconds = int64_t{control.DelayTime} * 10};
        if (control.TransparentColor != NO_TRANSPARENT_COLOR) frame.transparent = control.TransparentColor;
      }
      reader.check(DGifGetExtensionNext(gif, &block) == GIF_OK);
    }
  }
}

GifReader open_gif(std::string_view& rest, const std::string& where) {
  const std::size_t size = rest.size();
  int error = 0;
  GifReader reader{{DGifOpen(&rest, read_gif, &error), [](GifFileType* file) { DGifCloseFile(file, nullptr); }}, where};
  require<FormatError>(reader.file != nullptr, where, "the GIF header must be complete; got ", size,
                       " bytes that have none.");
  return reader;
}

// Big enough for all images so far.
Raster canvas_of(const GifReader& reader, int64_t max_pixels) {
  const GifFileType& gif = *reader.file;
  Raster raster;
  raster.resize(std::max<int64_t>(gif.SWidth, int64_t{gif.Image.Left} + gif.Image.Width),
                std::max<int64_t>(gif.SHeight, int64_t{gif.Image.Top} + gif.Image.Height), max_pixels, reader.where);
  return raster;
}

// Its colour under an index: grey levels where there is no such colour.
void put_index(Raster& raster, const GifFileType& gif, int64_t y, int64_t x, int index, int alpha) {
  const ColorMapObject* const colors = gif.Image.ColorMap ? gif.Image.ColorMap : gif.SColorMap;
  if (!colors || index >= colors->ColorCount) return raster.set(y, x, index, index, index, alpha);
  const GifColorType& c = colors->Colors[index];
  raster.set(y, x, c.Red, c.Green, c.Blue, alpha);
}

// Of the image whose header was read: put(y, x, index) for each pixel, on the canvas.
template <class Put>
void read_pixels(const GifReader& reader, const Put& put) {
  GifFileType* const gif = reader.file.get();
  const GifImageDesc& frame = gif->Image;
  std::vector<GifPixelType> row(static_cast<std::size_t>(frame.Width));
  const auto read_row = [&](int64_t y) {
    reader.check(DGifGetLine(gif, row.data(), frame.Width) == GIF_OK);
    for (int64_t x = 0; x < frame.Width; ++x) put(frame.Top + y, frame.Left + x, row[static_cast<std::size_t>(x)]);
  };
  if (!frame.Interlace) {
    for (int64_t y = 0; y < frame.Height; ++y) read_row(y);
    return;
  }
  constexpr int64_t kPasses[][2] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
  for (const auto& [first, step] : kPasses) {
    for (int64_t y = first; y < frame.Height; y += step) read_row(y);
  }
}

}  // namespace

// Of an animation, the first image.
Raster decode_gif(const DecodeCall& call) {
  std::string_view rest = call.bytes;
  const GifReader reader = open_gif(rest, call.where);
  const std::optional<GifFrame> frame = next_image(reader);
  require<FormatError>(frame.has_value(), call.where, "a GIF must have an image; got none.");
  const std::optional<int> transparent = frame->transparent;
  Raster raster = canvas_of(reader, call.max_pixels);
  raster.has_alpha = transparent.has_value();
  const auto put = [&](int64_t y, int64_t x, int index) {
    put_index(raster, *reader.file, y, x, index, transparent && index == *transparent ? 0 : 255);
  };
  for (int64_t y = 0; y < raster.height; ++y) {
    for (int64_t x = 0; x < raster.width; ++x) put(y, x, transparent.value_or(0));
  }
  read_pixels(reader, put);
  return raster;
}

// As Pillow shows them: an image that does not say what becomes of it is treated as the one before it, and the first
// one has nothing to restore.
void decode_gif_frames(const DecodeCall& call, const FrameSink& sink) {
  std::string_view rest = call.bytes;
  const GifReader reader = open_gif(rest, call.where);
  const GifFileType& gif = *reader.file;
  std::optional<Raster> canvas;
  int disposal = DISPOSAL_UNSPECIFIED;
  while (const std::optional<GifFrame> frame = next_image(reader)) {
    const GifImageDesc image = gif.Image;
    const int opacity = frame->transparent ? 0 : 255;
    const bool is_first = !canvas;
    if (is_first) {
      canvas = canvas_of(reader, call.max_pixels);
      canvas->has_alpha = true;
      for (int64_t y = 0; y < canvas->height; ++y) {
        for (int64_t x = 0; x < canvas->width; ++x)
          put_index(*canvas, gif, y, x, frame->transparent.value_or(0), opacity);
      }
    }
    require<FormatError>(image.Left + image.Width <= canvas->width && image.Top + image.Height <= canvas->height,
                         call.where, "the images of an animation must lie within ", canvas->width, " x ",
                         canvas->height, "; got one that does not.");
    if (frame->disposal != DISPOSAL_UNSPECIFIED) disposal = frame->disposal;
    const std::optional<Raster> before = disposal == DISPOSE_PREVIOUS && !is_first ? canvas : std::nullopt;
    read_pixels(reader, [&](int64_t y, int64_t x, int index) {
      if (!frame->transparent || index != *frame->transparent) put_index(*canvas, gif, y, x, index, 255);
    });
    sink(*canvas, frame->milliseconds);
    if (before) canvas = before;
    const bool clears = disposal == DISPOSE_BACKGROUND || (disposal == DISPOSE_PREVIOUS && is_first);
    if (!clears || (disposal == DISPOSE_PREVIOUS && !frame->transparent)) continue;
    const int background = gif.SColorMap ? gif.SBackGroundColor : 0;
    for (int64_t y = image.Top; y < image.Top + image.Height; ++y) {
      for (int64_t x = image.Left; x < image.Left + image.Width; ++x)
        put_index(*canvas, gif, y, x, frame->transparent.value_or(background), opacity);
    }
  }
  require<FormatError>(canvas.has_value(), call.where, "a GIF must have an image; got none.");
}
#else
Raster decode_gif(const DecodeCall& call) {
  fail<NotSupportedError>(call.where, "this build has no GIF support; build it with giflib (libgif-dev).");
}
void decode_gif_frames(const DecodeCall& call, const FrameSink&) { decode_gif(call); }
#endif

}  // namespace easydel
