// From the bytes of an image to a tensor of its colours.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace easydel {

// What happens to transparent pixels.
enum class Alpha {
  OverWhite,  // laid over white
  Drop,       // their colours, as if they were opaque
};

struct DecodeImageOptions {
  Alpha alpha = Alpha::OverWhite;
  int64_t max_pixels = 178'956'970;  // more are refused before any memory is taken for them
};

// [3, height, width] of uint8, upright as its EXIF block says; of an animation the first image. JPEG, PNG, WebP, GIF
// and BMP, known by their first bytes; grey, palettes, 16 bits and CMYK become RGB as in Pillow. FormatError on broken
// content, NotSupportedError on another format, or on one whose library the build lacks. `name` is named in errors.
at::Tensor decode_image(std::string_view bytes, const DecodeImageOptions& options = {}, const std::string& name = "");

// The frames of a video: of an animated GIF or WebP file, or the images of a folder in the order of their names,
// where numbers count by their value. All have the size of the first. NotSupportedError on other files, FormatError
// where there is no frame, or one of another size.
struct VideoFrames {
  std::vector<at::Tensor> frames;  // [3, height, width] of uint8
  std::optional<double> fps;       // frames in a second, all alike; a folder does not say it
};
VideoFrames load_video(const std::filesystem::path& path, const DecodeImageOptions& options = {});

// Of a file. IoError when it cannot be read.
at::Tensor load_image(const std::filesystem::path& path, const DecodeImageOptions& options = {});

}  // namespace easydel
