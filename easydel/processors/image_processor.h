// From images to pixel_values, bit for bit as the torchvision backend of transformers.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/io/hub/hub.h"
#include "easydel/processors/decode_image.h"
#include "easydel/processors/image_steps.h"
#include "easydel/processors/image_tiles.h"

namespace easydel {

// Which steps a model's images go through, under the keys of preprocessor_config.json.
struct ImageSteps {
  bool do_convert_rgb = false, do_resize = true, do_center_crop = false, do_rescale = true, do_normalize = true;
  bool do_pad = false;
  bool pads_to_square = false;  // llava: do_pad makes a square of each image before it is resized
  ImageSize size = {}, crop_size = {}, pad_size = {};
  ImageSize patch_size = {};     // pixtral: sides are filled up to whole patches
  bool do_pan_and_scan = false;  // gemma3
  PanAndScan pan_and_scan = {};
  bool do_image_splitting = false;  // smolvlm: into squares of max_image_size
  ImageSize max_image_size = {};
  Resample resample = Resample::Bicubic;
  double rescale_factor = 1.0 / 255;
  std::vector<double> image_mean, image_std;
  // Qwen: images keep their shape and become patches, merge_size x merge_size of which make a token. size is then the
  // least and the most pixels. 0: images stay images.
  int64_t patch_side = 0, temporal_patch_size = 0, merge_size = 0;
};

// What becomes of images.
struct ProcessedImages {
  // [pieces, 3, height, width], or patches [patches, 3 x temporal_patch_size x patch_side x patch_side].
  at::Tensor pixel_values;
  std::vector<int64_t> pieces;           // of each image
  std::vector<HeightWidth> sizes = {};   // of each piece, before it was padded
  std::vector<HeightWidth> grids = {};   // smolvlm: the squares of each image; 0 x 0: it is alone
  at::Tensor pixel_attention_mask = {};  // smolvlm: [pieces, height, width], zero: padding
  at::Tensor image_grid_thw = {};        // Qwen: [images, 3], patches in time, height and width
  int64_t merge_size = 1;                // Qwen: of merge_size x merge_size patches one token
};

class ImageProcessor {
 public:
  // The steps of a class of transformers (CLIPImageProcessor), and what `json` changes of them. NotSupportedError on a
  // class that is not here, ConfigError on wrong values; messages begin with `where`.
  ImageProcessor(std::string class_name, const Json& json, const std::string& where);

  const std::string& class_name() const { return class_name_; }
  const ImageSteps& steps() const { return steps_; }

  // What decode_image does with transparency: where images are converted to RGB they are laid over white.
  DecodeImageOptions decode_options() const;
  at::Tensor load(const std::filesystem::path& path) const { return load_image(path, decode_options()); }
  at::Tensor decode(std::string_view bytes, const std::string& name = "") const {
    return decode_image(bytes, decode_options(), name);
  }

  // pixel_values [images, 3, height, width] of images [3, h, w] of uint8. ShapeError where the steps leave them in
  // different sizes.
  at::Tensor operator()(const std::vector<at::Tensor>& images) const { return process(images).pixel_values; }
  ProcessedImages process(const std::vector<at::Tensor>& images) const;

  // For what a whole model's processor sets, whatever the file says.
  void set_patch_size(int64_t side) { steps_.patch_size = {.height = side, .width = side}; }
  void set_pan_and_scan(const std::optional<PanAndScan>& options);

  // Of [..., 3, height, width] of bytes, as floats.
  at::Tensor rescale_and_normalize(const at::Tensor& pixels) const;
  // Frames [T, 3, height, width] as [patches, features], and their grid [3]. The last one is repeated where
  // temporal_patch_size needs more. ShapeError where height and width are not multiples of a token's.
  std::pair<at::Tensor, at::Tensor> to_patches(const at::Tensor& frames) const;

  // Of a class whose images become patches (Qwen2VLImageProcessor).
  bool makes_patches() const { return steps_.patch_side > 0; }

 private:
  static void check_image(const at::Tensor& image);
  ProcessedImages patches(const std::vector<at::Tensor>& images) const;
  std::vector<at::Tensor> pieces_of(const at::Tensor& image, ProcessedImages& result) const;
  HeightWidth target_size(HeightWidth given) const;

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
