#include "easydel/processors/decode_image.h"

#include <ATen/ATen.h>

#include <algorithm>

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
  fail<NotSupportedError>(call.where, "an image must be a JPEG, PNG, WebP, GIF or BMP file; got ", b.size(),
                          " bytes of another format.");
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

at::Tensor to_tensor(Raster& raster, Alpha alpha) {
  if (raster.has_alpha && alpha == Alpha::OverWhite) put_over_white(raster);
  const at::Tensor pixels = at::from_blob(raster.rgba.data(), {raster.height, raster.width, 4}, at::kByte);
  return pixels.narrow(2, 0, 3).permute({2, 0, 1}).clone(at::MemoryFormat::Contiguous);  // the raster goes away
}

// "2.png" before "10.png".
bool comes_before(const std::string& a, const std::string& b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
      continue;
    }
    const auto number = [&](const std::string& text, std::size_t& at) {
      while (at < text.size() && text[at] == '0') ++at;
      const std::size_t first = at;
      while (at < text.size() && is_digit(text[at])) ++at;
      return text.substr(first, at - first);
    };
    const std::string x = number(a, i), y = number(b, j);
    if (x != y) return x.size() != y.size() ? x.size() < y.size() : x < y;
  }
  if (i == a.size() && j == b.size()) return a < b;  // "01" and "1"
  return a.size() - i < b.size() - j;
}

// All frames together have as many pixels as so many of the largest images.
constexpr int64_t kMaxVideo = 8;

class FrameList {
 public:
  FrameList(const DecodeImageOptions& options, const std::string& where) : options_(options), where_(where) {}

  void add(at::Tensor frame) {
    std::vector<at::Tensor>& all = video_.frames;
    require<FormatError>(all.empty() || frame.sizes() == all[0].sizes(), where_, "frame ", all.size() + 1,
                         " must be as large as the first, ", all.empty() ? 0 : all[0].size(1), " x ",
                         all.empty() ? 0 : all[0].size(2), "; got ", frame.size(1), " x ", frame.size(2), ".");
    pixels_ += frame.size(1) * frame.size(2);
    require<FormatError>(pixels_ <= kMaxVideo * options_.max_pixels, where_, "the frames may have ",
                         kMaxVideo * options_.max_pixels, " pixels in total; there are more. Leave some out.");
    all.push_back(std::move(frame));
  }
  VideoFrames take() { return std::move(video_); }

 private:
  const DecodeImageOptions& options_;
  const std::string& where_;
  VideoFrames video_;
  int64_t pixels_ = 0;
};

}  // namespace

at::Tensor decode_image(std::string_view bytes, const DecodeImageOptions& options, const std::string& name) {
  const std::string where = "[decode_image] " + (name.empty() ? "" : name + ": ");
  Raster raster = upright(decode({bytes, options.max_pixels, where}));
  return to_tensor(raster, options.alpha);
}

at::Tensor load_image(const std::filesystem::path& path, const DecodeImageOptions& options) {
  return decode_image(read_file(path), options, path.string());
}

VideoFrames load_video(const std::filesystem::path& path, const DecodeImageOptions& options) {
  const std::string where = concat("[load_video] ", path.string(), ": ");
  FrameList list(options, where);
  if (std::filesystem::is_directory(path)) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.is_regular_file() && !entry.path().filename().string().starts_with("."))
        names.push_back(entry.path().filename().string());
    }
    require<FormatError>(!names.empty(), where, "a folder of frames must have images; got none.");
    std::sort(names.begin(), names.end(), comes_before);
    for (const std::string& name : names) list.add(load_image(path / name, options));
    return list.take();
  }
  const std::string bytes = read_file(path);
  const std::string_view b = bytes;
  const bool is_webp = b.size() >= 12 && b.starts_with("RIFF") && b.substr(8, 4) == "WEBP";
  require<NotSupportedError>(is_webp || b.starts_with("GIF8"), where,
                             "a video must be a folder of frames, or an animated GIF or WebP file; video codecs are "
                             "not supported. Extract its frames, as in: ffmpeg -i FILE -r 2 FOLDER/%05d.png");
  int64_t milliseconds = 0;
  const FrameSink sink = [&](const Raster& frame, int64_t stays) {
    Raster shown = frame;
    list.add(to_tensor(shown, options.alpha));
    milliseconds += stays;
  };
  const DecodeCall call{bytes, options.max_pixels, where};
  if (is_webp) {
    decode_webp_frames(call, sink);
  } else {
    decode_gif_frames(call, sink);
  }
  VideoFrames video = list.take();
  if (milliseconds > 0)
    video.fps = static_cast<double>(video.frames.size()) / (static_cast<double>(milliseconds) / 1000);
  return video;
}

}  // namespace easydel
