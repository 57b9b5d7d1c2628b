// Texts with images: a placeholder in the text becomes as many tokens as its image has features.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "easydel/processors/image_processor.h"
#include "easydel/processors/image_prompt.h"

namespace easydel {

// What a model takes of images. An image may be several pieces.
struct ImageInputs {
  at::Tensor pixel_values;               // [pieces, 3, height, width], or patches [patches, features]
  std::vector<int64_t> tokens;           // of each piece in a text
  std::vector<std::string> texts;        // of each image, in the place of its placeholder
  at::Tensor image_sizes = {};           // [pieces, 2] of images that were padded to one size
  at::Tensor pixel_attention_mask = {};  // [pieces, height, width], zero: padding
  at::Tensor image_grid_thw = {};        // [images, 3], where they are patches
  // Of videos that are patches; the frames of others are images.
  at::Tensor pixel_values_videos = {}, video_grid_thw = {};
  at::Tensor second_per_grid_ts = {};         // [videos], where the model's positions count seconds
  std::vector<std::string> video_texts = {};  // in the place of a video's placeholder
};

class VisionProcessor {
 public:
  // processor_config.json and the image processor of a directory, or of a repository on the hub; Qwen's older files
  // have the image processor alone. NotSupportedError on a processor_class that is not here, ConfigError on wrong
  // values.
  static VisionProcessor from_pretrained(const std::string& name_or_path, const HubOptions& hub = {});
  static VisionProcessor from_directory(const std::filesystem::path& directory);
  static bool is_in(const std::filesystem::path& directory);

  const ImageProcessor& image_processor() const { return images_; }
  const std::string& image_token() const { return prompts_->placeholder(); }
  const std::string& feature_token() const { return prompts_->feature_token(); }
  // Gemma 3: shows long images in crops too. ConfigError for others.
  void set_pan_and_scan(const PanAndScan& options);

  // Of images [3, h, w] of uint8, as image_processor().load and decode give them.
  ImageInputs operator()(const std::vector<at::Tensor>& images) const;
  ImageInputs load(const std::vector<std::string>& files) const;
  // Adds videos: folders of frames, animated GIF or WebP files. `fps`: how many frames a second of a folder has; needed
  // where frames are sampled by time, the prompt has timestamps or positions count seconds, and refused where nothing
  // uses it.
  void add_videos(ImageInputs& inputs, const std::vector<std::string>& paths, std::optional<double> fps) const;
  // The text with what each image is in the place of its placeholder, in their order. ConfigError where the text has
  // more placeholders than there are images, or fewer; likewise of videos.
  std::string expand(const std::string& text, const ImageInputs& images) const;

 private:
  VisionProcessor(ImageProcessor images, std::optional<VideoProcessor> videos,
                  std::shared_ptr<const ImagePrompts> prompts);

  ImageProcessor images_;
  std::optional<VideoProcessor> videos_;
  std::shared_ptr<const ImagePrompts> prompts_;
};

}  // namespace easydel
