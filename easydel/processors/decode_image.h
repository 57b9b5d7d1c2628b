// From the bytes of a picture to a tensor of its colours.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

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

// [3, height, width] of uint8, upright as its EXIF block says; of an animation the first picture. JPEG, PNG, WebP, GIF
// and BMP, known by their first bytes; grey, palettes, 16 bits and CMYK become RGB as in Pillow. FormatError on broken
// content, NotSupportedError on another format, or on one whose library the build lacks. `name` is named in errors.
at::Tensor decode_image(std::string_view bytes, const DecodeImageOptions& options = {}, const std::string& name = "");

// Of a file. IoError when it cannot be read.
at::Tensor load_image(const std::filesystem::path& path, const DecodeImageOptions& options = {});

}  // namespace easydel
