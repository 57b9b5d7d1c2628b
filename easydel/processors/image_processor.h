// From pictures to pixel_values, bit for bit as the torchvision backend of transformers.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/io/hub/hub.h"
#include "easydel/processors/decode_image.h"
#include "easydel/processors/image_steps.h"

namespace easydel {

// Which steps a model's pictures go through, under the keys of preprocessor_config.json.
struct ImageSteps {
  bool do_convert_rgb = false, do_resize = true, do_center_crop = false, do_rescale = true, do_normalize = true;
  bool do_pad = false;
  bool pads_to_square = false;  // llava: do_pad makes a square of each picture before it is resized
  ImageSize size = {}, crop_size = {}, pad_size = {};
  Resample resample = Resample::Bicubic;
  double rescale_factor = 1.0 / 255;
  std::vector<double> image_mean, image_std;
  // Qwen: pictures keep their shape and become patches, merge_size x merge_size of which make a token. size is then the
  // least and the most pixels. 0: pictures stay pictures.
  int64_t patch_size = 0, temporal_patch_size = 0, merge_size = 0;
};

// Pictures of any sizes as patches, one after the other.
struct ImagePatches {
  at::Tensor pixel_values;    // [patches, 3 x temporal_patch_size x patch_size x patch_size]
  at::Tensor image_grid_thw;  // [pictures, 3]: patches in time, height and width
};

class ImageProcessor {
 public:
  // The steps of a class of transformers (CLIPImageProcessor), and what `json` changes of them. NotSupportedError on a
  // class that is not here, ConfigError on wrong values; messages begin with `where`.
  ImageProcessor(std::string class_name, const Json& json, const std::string& where);

  const std::string& class_name() const { return class_name_; }
  const ImageSteps& steps() const { return steps_; }

  // What decode_image does with transparency: where pictures are converted to RGB they are laid over white.
  DecodeImageOptions decode_options() const;
  at::Tensor load(const std::filesystem::path& path) const { return load_image(path, decode_options()); }
  at::Tensor decode(std::string_view bytes, const std::string& name = "") const {
    return decode_image(bytes, decode_options(), name);
  }

  // pixel_values [images, 3, height, width] of pictures [3, h, w] of uint8. ShapeError where the steps leave them in
  // different sizes.
  at::Tensor operator()(const std::vector<at::Tensor>& images) const;

  // Of a class whose pictures become patches (Qwen2VLImageProcessor).
  bool makes_patches() const { return steps_.patch_size > 0; }
  ImagePatches patches(const std::vector<at::Tensor>& images) const;

 private:
  static void check_picture(const at::Tensor& image);
  at::Tensor rescale_and_normalize(const at::Tensor& image) const;

  std::string class_name_;
  ImageSteps steps_;
};

struct AutoImageProcessor {
  // From image_processor in processor_config.json, or preprocessor_config.json, of a directory or of a repository on
  // the hub. A file without image_processor_type is of the class that config.json's model_type has. ConfigError when
  // there is none.
  static ImageProcessor from_pretrained(const std::string& name_or_path, const HubOptions& hub = {});
  static ImageProcessor from_directory(const std::filesystem::path& directory);
  static bool is_in(const std::filesystem::path& directory);
};

}  // namespace easydel
