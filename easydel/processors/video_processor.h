// From the frames of a video to what a model takes of it, bit for bit as the video processors of transformers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/processors/decode_image.h"
#include "easydel/processors/image_processor.h"

namespace easydel {

// Which frames of a video are looked at, under the keys of video_preprocessor_config.json.
struct FrameSteps {
  bool do_sample_frames = false;  // false: all of them
  std::optional<double> fps;      // frames in a second; or
  std::optional<int64_t> num_frames;
  int64_t min_frames = 4, max_frames = 768;
  bool cap_pixels_per_frame = false;  // Qwen: as qwen-vl-utils, by max_video_tokens
  int64_t max_video_tokens = 0;
};

struct ProcessedVideo {
  // Patches [patches, features] of Qwen's, with grid_thw [3]; or frames [frames, 3, height, width].
  at::Tensor pixel_values;
  at::Tensor grid_thw = {};
  int64_t merge_size = 1, temporal_patch_size = 1;
  std::vector<int64_t> indices;   // of the frames that were looked at
  std::optional<double> fps;      // of the whole video
  std::optional<double> seconds;  // likewise
  int64_t frames = 0;             // likewise

  // From one step of the grid to the next, at the rate of the frames that were looked at. The video must have fps.
  double seconds_per_step() const;
};

class VideoProcessor {
 public:
  // A class of transformers (Qwen2VLVideoProcessor, Qwen3VLVideoProcessor, SmolVLMVideoProcessor), and what `json`
  // changes of its steps. NotSupportedError on another class, ConfigError on wrong values; messages begin with `where`.
  VideoProcessor(const std::string& class_name, const Json& json, const std::string& where);
  // From video_processor in processor_config.json, video_preprocessor_config.json, or preprocessor_config.json, in this
  // order, as transformers looks for it. Absent: the directory has a processor of images alone.
  static std::optional<VideoProcessor> from_directory(const std::filesystem::path& directory);

  const FrameSteps& frames() const { return frames_; }
  DecodeImageOptions decode_options() const { return images_.decode_options(); }
  // Whether frames are chosen by their time.
  bool chooses_by_time() const { return frames_.do_sample_frames && (kind_ == Kind::SmolVLM || !frames_.num_frames); }
  // The indices of the frames that are looked at.
  std::vector<int64_t> sample(int64_t count, std::optional<double> fps) const;
  ProcessedVideo operator()(const VideoFrames& video) const;

 private:
  enum class Kind : uint8_t { Qwen2, Qwen3, SmolVLM };
  HeightWidth size_of(HeightWidth given, int64_t frames) const;
  at::Tensor resized(const at::Tensor& frame, int64_t frames) const;

  Kind kind_;
  ImageProcessor images_;  // what becomes of a frame
  FrameSteps frames_;
};

}  // namespace easydel
