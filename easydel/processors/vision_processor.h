// Texts with pictures: a placeholder in the text becomes as many tokens as its picture has features.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "easydel/processors/image_processor.h"

namespace easydel {

// What a model takes of pictures.
struct PictureInputs {
  at::Tensor pixel_values;      // [pictures, 3, height, width], or patches [patches, features]
  at::Tensor image_grid_thw;    // [pictures, 3], where they are patches
  std::vector<int64_t> tokens;  // of each picture in a text
};

class VisionProcessor {
 public:
  // processor_config.json and the image processor of a directory, or of a repository on the hub; Qwen's older files
  // have the image processor alone. NotSupportedError on a processor_class other than LlavaProcessor and Qwen's,
  // ConfigError on wrong values.
  static VisionProcessor from_pretrained(const std::string& name_or_path, const HubOptions& hub = {});
  static VisionProcessor from_directory(const std::filesystem::path& directory);
  static bool is_in(const std::filesystem::path& directory);

  const ImageProcessor& image_processor() const { return images_; }
  const std::string& image_token() const { return image_token_; }

  // Of pictures [3, h, w] of uint8, as image_processor().load and decode give them.
  PictureInputs operator()(const std::vector<at::Tensor>& pictures) const;
  PictureInputs load(const std::vector<std::string>& files) const;
  // The text with each placeholder repeated as its picture asks, in their order. ConfigError where the text has more
  // placeholders than there are pictures, or fewer.
  std::string expand(const std::string& text, const PictureInputs& pictures) const;

 private:
  VisionProcessor(ImageProcessor images, const Json& json, const std::string& where);

  ImageProcessor images_;
  std::string image_token_ = "<image>";
  int64_t patch_size_ = 0, additional_tokens_ = 0;
  bool leaves_class_token_out_ = false;
};

}  // namespace easydel
