#include "easydel/processors/image_processor.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"

namespace easydel {
namespace {

const std::vector<double> kClipMean{0.48145466, 0.4578275, 0.40821073}, kClipStd{0.26862954, 0.26130258, 0.27577711};
const std::vector<double> kHalf{0.5, 0.5, 0.5};

ImageSteps clip_steps() {
  return {.do_convert_rgb = true,
          .do_center_crop = true,
          .size = {.shortest_edge = 224},
          .crop_size = {.height = 224, .width = 224},
          .image_mean = kClipMean,
          .image_std = kClipStd};
}

ImageSteps steps_of(const std::string& class_name, const std::string& where) {
  if (class_name == "CLIPImageProcessor" || class_name == "BitImageProcessor") return clip_steps();
  if (class_name == "LlavaImageProcessor") {
    ImageSteps steps = clip_steps();
    steps.pads_to_square = true;
    return steps;
  }
  if (class_name == "Qwen2VLImageProcessor") {
    return {.do_convert_rgb = true,
            .size = {.shortest_edge = 56 * 56, .longest_edge = 28 * 28 * 1280},
            .image_mean = kClipMean,
            .image_std = kClipStd,
            .patch_side = 14,
            .temporal_patch_size = 2,
            .merge_size = 2};
  }
  ImageSteps steps{.size = {.height = 224, .width = 224}, .image_mean = kHalf, .image_std = kHalf};
  if (class_name == "SiglipImageProcessor") {
    steps.do_convert_rgb = true;
    return steps;
  }
  if (class_name == "ViTImageProcessor") {
    steps.resample = Resample::Bilinear;
    return steps;
  }
  if (class_name == "Gemma3ImageProcessor") {
    steps.do_convert_rgb = true;
    steps.resample = Resample::Bilinear;
    return steps;
  }
  if (class_name == "PixtralImageProcessor") {
    return {.do_convert_rgb = true,
            .do_pad = true,
            .size = {.longest_edge = 1024},
            .patch_size = {.height = 16, .width = 16},
            .image_mean = kClipMean,
            .image_std = kClipStd};
  }
  if (class_name == "SmolVLMImageProcessor") {
    return {.do_convert_rgb = true,
            .do_pad = true,
            .size = {.longest_edge = 4 * 364},
            .do_image_splitting = true,
            .max_image_size = {.longest_edge = 364},
            .resample = Resample::Lanczos,
            .image_mean = kHalf,
            .image_std = kHalf};
  }
  fail<NotSupportedError>(where,
                          "image_processor_type must be one of BitImageProcessor, CLIPImageProcessor, "
                          "Gemma3ImageProcessor, LlavaImageProcessor, PixtralImageProcessor, Qwen2VLImageProcessor, "
                          "SiglipImageProcessor, SmolVLMImageProcessor, ViTImageProcessor; got \"",
                          class_name, "\".");
}

// Reads one key after the other; null and absent ones keep what the class has.
class StepReader {
 public:
  StepReader(const Json& json, const std::string& where) : json_(json), where_(where) {}

  void operator()(const char* key, bool& value) const {
    if (const Json* given = find(key)) {
      check(given->is_bool(), key, "true or false", *given);
      value = given->as_bool();
    }
  }
  void operator()(const char* key, double& value) const {
    if (const Json* given = find(key)) {
      check(given->is_number(), key, "a number", *given);
      value = given->as_double();
    }
  }
  void operator()(const char* key, int64_t& value) const {
    if (const Json* given = find(key)) {
      check(given->is_int() && given->as_int() > 0, key, "a positive number", *given);
      value = given->as_int();
    }
  }
  void operator()(const char* key, std::vector<double>& values) const {
    const Json* given = find(key);
    if (!given) return;
    values.clear();
    if (given->is_number()) {
      values.push_back(given->as_double());
      return;
    }
    check(given->is_array() && given->size() == 3, key, "a number or a list of 3", *given);
    for (const Json& one : given->as_array()) {
      check(one.is_number(), key, "a number or a list of 3", *given);
      values.push_back(one.as_double());
    }
  }
  void operator()(const char* key, Resample& value) const {
    const Json* given = find(key);
    if (!given) return;
    const bool known = given->is_int() && given->as_int() >= 0 && given->as_int() <= 3;
    check(known, key, "0 (nearest), 1 (lanczos), 2 (bilinear) or 3 (bicubic)", *given);
    value = static_cast<Resample>(given->as_int());
  }
  // A lone number is an edge of a square, or the shortest edge of what keeps its shape.
  void operator()(const char* key, ImageSize& size, bool square) const {
    const Json* given = find(key);
    if (!given) return;
    const char* const rule = "a positive number, [height, width] or an object of them";
    const auto edge = [&](const Json& number) {
      check(number.is_int() && number.as_int() > 0, key, rule, *given);
      return number.as_int();
    };
    size = {};
    if (given->is_int()) {
      if (!square) {
        size.shortest_edge = edge(*given);
      } else {
        size.height = size.width = edge(*given);
      }
      return;
    }
    if (given->is_array()) {
      check(given->size() == 2, key, rule, *given);
      size.height = edge(given->at(0));
      size.width = edge(given->at(1));
      return;
    }
    check(given->is_object() && given->size() > 0, key, rule, *given);
    for (const auto& [name, number] : given->as_object()) {
      if (number.is_null()) continue;
      std::optional<int64_t>* const field = name == "height"          ? &size.height
                                            : name == "width"         ? &size.width
                                            : name == "shortest_edge" ? &size.shortest_edge
                                            : name == "longest_edge"  ? &size.longest_edge
                                            : name == "max_height"    ? &size.max_height
                                            : name == "max_width"     ? &size.max_width
                                                                      : nullptr;
      require<ConfigError>(field != nullptr, where_, key,
                           " may have height, width, shortest_edge, longest_edge, max_height and max_width; got \"",
                           name, "\".");
      *field = edge(number);
    }
  }

 private:
  const Json* find(const char* key) const {
    const Json* given = json_.find(key);
    return given && !given->is_null() ? given : nullptr;
  }
  void check(bool holds, const char* key, const char* rule, const Json& given) const {
    require<ConfigError>(holds, where_, key, " must be ", rule, "; got ", given.dump(), ".");
  }

  const Json& json_;
  const std::string& where_;
};

void read_pan_and_scan(const StepReader& read, ImageSteps& steps) {
  read("do_pan_and_scan", steps.do_pan_and_scan);
  read("pan_and_scan_min_crop_size", steps.pan_and_scan.min_crop_size);
  read("pan_and_scan_max_num_crops", steps.pan_and_scan.max_num_crops);
  read("pan_and_scan_min_ratio_to_activate", steps.pan_and_scan.min_ratio_to_activate);
}

void check_steps(const ImageSteps& s, const std::string& where) {
  require<ConfigError>(!s.do_rescale || s.rescale_factor != 0, where, "rescale_factor must not be 0.");
  for (const double value : s.image_std)
    require<ConfigError>(!s.do_normalize || value != 0, where, "image_std must not be 0.");
  require<ConfigError>(!s.do_center_crop || (s.crop_size.height && s.crop_size.width), where,
                       "crop_size must have height and width.");
  if (s.max_image_size.longest_edge) {
    require<ConfigError>(!s.do_resize || s.size.longest_edge || (s.size.height && s.size.width), where,
                         "size must have longest_edge, or height and width.");
    return;
  }
  if (s.patch_size.height) {
    require<ConfigError>(s.patch_size.width.has_value(), where, "patch_size must have height and width.");
    require<ConfigError>(!s.do_resize || s.size.longest_edge || (s.size.height && s.size.width), where,
                         "size must have longest_edge, or height and width.");
    require<NotSupportedError>(!s.do_center_crop, where,
                               "do_center_crop must be false: the sizes of images would not be theirs.");
    return;
  }
  if (s.patch_side > 0) {
    require<ConfigError>(!s.do_resize || (s.size.shortest_edge && s.size.longest_edge), where,
                         "size must have shortest_edge and longest_edge, the least and the most pixels.");
    require<NotSupportedError>(!s.do_center_crop && !s.do_pad, where,
                               "images that become patches are neither cropped nor padded; got do_center_crop or "
                               "do_pad.");
    return;
  }
  if (s.do_resize) resized_size({1, 1}, s.size);
}

// Qwen's files say it without size, or beside it.
void read_pixel_limits(ImageSteps& steps, const StepReader& read) {
  for (const auto& [key, edge] :
       {std::pair("min_pixels", &steps.size.shortest_edge), std::pair("max_pixels", &steps.size.longest_edge)}) {
    int64_t pixels = 0;
    read(key, pixels);
    if (pixels > 0) *edge = pixels;
  }
}

}  // namespace

ImageProcessor::ImageProcessor(std::string class_name, const Json& json, const std::string& where)
    : class_name_(std::move(class_name)), steps_(steps_of(class_name_, where)) {
  const StepReader read(json, where);
  read("do_convert_rgb", steps_.do_convert_rgb);
  read("do_resize", steps_.do_resize);
  read("do_center_crop", steps_.do_center_crop);
  read("do_rescale", steps_.do_rescale);
  read("do_normalize", steps_.do_normalize);
  read("do_pad", steps_.do_pad);
  read("rescale_factor", steps_.rescale_factor);
  read("image_mean", steps_.image_mean);
  read("image_std", steps_.image_std);
  read("resample", steps_.resample);
  bool square = class_name_ == "ViTImageProcessor";
  read("default_to_square", square);
  read("size", steps_.size, square);
  read("crop_size", steps_.crop_size, true);
  read("pad_size", steps_.pad_size, true);
  if (class_name_ == "PixtralImageProcessor") read("patch_size", steps_.patch_size, true);
  if (class_name_ == "SmolVLMImageProcessor") {
    read("do_image_splitting", steps_.do_image_splitting);
    read("max_image_size", steps_.max_image_size, false);
    require<ConfigError>(steps_.max_image_size.longest_edge.has_value(), where,
                         "max_image_size must have longest_edge.");
  }
  if (class_name_ == "Gemma3ImageProcessor") read_pan_and_scan(read, steps_);
  if (makes_patches()) {
    read("patch_size", steps_.patch_side);
    read("temporal_patch_size", steps_.temporal_patch_size);
    read("merge_size", steps_.merge_size);
    read_pixel_limits(steps_, read);
  }
  const Json* format = json.find("data_format");
  require<NotSupportedError>(!format || format->is_null() || *format == Json("channels_first"), where,
                             "data_format must be channels_first; got ", format ? format->dump() : "", ".");
  check_steps(steps_, where);
}

DecodeImageOptions ImageProcessor::decode_options() const {
  return {.alpha = steps_.do_convert_rgb ? Alpha::OverWhite : Alpha::Drop};
}

at::Tensor ImageProcessor::rescale_and_normalize(const at::Tensor& image) const {
  if (!steps_.do_normalize) return steps_.do_rescale ? image * steps_.rescale_factor : image;
  const auto by_channel = [&](const std::vector<double>& values) {
    at::Tensor levels = at::tensor(values, at::kFloat);
    // Both steps at once: the image's numbers stay what they are.
    if (steps_.do_rescale) levels = levels * (1.0 / steps_.rescale_factor);
    return levels.view({-1, 1, 1});
  };
  return image.to(at::kFloat).sub_(by_channel(steps_.image_mean)).div_(by_channel(steps_.image_std));
}

void ImageProcessor::set_pan_and_scan(const std::optional<PanAndScan>& options) {
  steps_.do_pan_and_scan = options.has_value();
  if (options) steps_.pan_and_scan = *options;
}

HeightWidth ImageProcessor::target_size(HeightWidth given) const {
  if (steps_.max_image_size.longest_edge && steps_.size.longest_edge)
    return size_by_longest_edge(given, *steps_.size.longest_edge);
  if (!steps_.patch_size.height) return resized_size(given, steps_.size);
  const ImageSize& size = steps_.size;
  const HeightWidth longest =
      size.longest_edge ? HeightWidth{*size.longest_edge, *size.longest_edge} : HeightWidth{*size.height, *size.width};
  return size_in_patches(given, longest, {*steps_.patch_size.height, *steps_.patch_size.width});
}

std::vector<at::Tensor> ImageProcessor::pieces_of(const at::Tensor& image, ProcessedImages& result) const {
  const auto resized = [&](const at::Tensor& x) {
    return resize_image(x, target_size({x.size(1), x.size(2)}), steps_.resample);
  };
  if (steps_.do_pan_and_scan) {
    std::vector<at::Tensor> pieces{resized(image)};
    for (const at::Tensor& crop : pan_and_scan(image, steps_.pan_and_scan)) pieces.push_back(resized(crop));
    return pieces;
  }
  at::Tensor x = image;
  if (steps_.do_pad && steps_.pads_to_square) x = pad_to_square(x, steps_.image_mean);
  if (steps_.do_resize) x = resized(x);
  if (const auto side = steps_.max_image_size.longest_edge) {
    Tiles tiles = steps_.do_image_splitting ? split_image(x, *side, steps_.resample)
                                            : Tiles{{resize_image(x, {*side, *side}, steps_.resample)}};
    result.grids.push_back(tiles.grid);
    return std::move(tiles.pieces);
  }
  if (steps_.do_center_crop) x = center_crop(x, {*steps_.crop_size.height, *steps_.crop_size.width});
  return {x};
}

void ImageProcessor::check_image(const at::Tensor& image) {
  require<ShapeError>(image.dim() == 3 && image.size(0) == 3 && image.scalar_type() == at::kByte && image.numel() > 0,
                      "[ImageProcessor] an image must be [3, height, width] of uint8; got ", image.sizes(), " of ",
                      image.scalar_type(), ".");
}

std::pair<at::Tensor, at::Tensor> ImageProcessor::to_patches(const at::Tensor& frames) const {
  const int64_t patch = steps_.patch_side, merge = steps_.merge_size, together = steps_.temporal_patch_size;
  const int64_t count = frames.size(0), missing = (together - count % together) % together;
  const int64_t height = frames.size(2), width = frames.size(3), factor = patch * merge;
  require<ShapeError>(height % factor == 0 && width % factor == 0,
                      "[ImageProcessor] images must have heights and widths in multiples of ", factor, "; got ", height,
                      " x ", width, ". Set do_resize to resize them.");
  const at::Tensor whole =
      missing > 0 ? at::cat({frames, frames.narrow(0, count - 1, 1).expand({missing, -1, -1, -1})}) : frames;
  const int64_t steps = (count + missing) / together, rows = height / patch, columns = width / patch;
  const at::Tensor cut = whole.reshape({steps, together, 3, rows / merge, merge, patch, columns / merge, merge, patch});
  // Frames, row and column of the token, of the patch in it, colour, frame, row and column of the pixel.
  const at::Tensor ordered = cut.permute({0, 3, 6, 4, 7, 2, 1, 5, 8});
  return {ordered.reshape({steps * rows * columns, -1}), at::tensor({steps, rows, columns}, at::kLong)};
}

ProcessedImages ImageProcessor::patches(const std::vector<at::Tensor>& images) const {
  const int64_t factor = steps_.patch_side * steps_.merge_size;
  ProcessedImages result;
  result.merge_size = steps_.merge_size;
  std::vector<at::Tensor> pixels, grids;
  for (const at::Tensor& image : images) {
    check_image(image);
    at::Tensor x = image;
    if (steps_.do_resize) {
      x = resize_image(
          x, fitting_size({x.size(1), x.size(2)}, factor, *steps_.size.shortest_edge, *steps_.size.longest_edge),
          steps_.resample);
    }
    const auto [patches, grid] = to_patches(rescale_and_normalize(x).unsqueeze(0));
    pixels.push_back(patches);
    grids.push_back(grid);
    result.pieces.push_back(1);
  }
  result.pixel_values = at::cat(pixels);
  result.image_grid_thw = at::stack(grids);
  return result;
}

ProcessedImages ImageProcessor::process(const std::vector<at::Tensor>& images) const {
  require<ShapeError>(!images.empty(), "[ImageProcessor] there must be an image; got none.");
  if (makes_patches()) return patches(images);
  ProcessedImages result;
  std::vector<at::Tensor> done;
  for (const at::Tensor& image : images) {
    check_image(image);
    const std::vector<at::Tensor> pieces = pieces_of(image, result);
    result.pieces.push_back(static_cast<int64_t>(pieces.size()));
    for (const at::Tensor& piece : pieces) {
      result.sizes.push_back({piece.size(1), piece.size(2)});
      done.push_back(rescale_and_normalize(piece));
    }
  }
  if (steps_.do_pad && !steps_.pads_to_square) {
    HeightWidth to;
    for (const at::Tensor& x : done) to = {std::max(to.height, x.size(1)), std::max(to.width, x.size(2))};
    if (steps_.pad_size.height && steps_.pad_size.width) to = {*steps_.pad_size.height, *steps_.pad_size.width};
    for (at::Tensor& x : done) x = pad_below(x, to);
  }
  for (const at::Tensor& x : done) {
    require<ShapeError>(x.sizes() == done[0].sizes(), "[ImageProcessor] the images of a batch must come out in one ",
                        "size; got ", done[0].sizes(), " and ", x.sizes(),
                        ". Set do_center_crop or do_pad to make them equal.");
  }
  result.pixel_values = at::stack(done);
  if (steps_.do_pad && steps_.max_image_size.longest_edge) {
    at::Tensor& mask = result.pixel_attention_mask;
    mask =
        at::zeros({result.pixel_values.size(0), result.pixel_values.size(2), result.pixel_values.size(3)}, at::kLong);
    for (std::size_t i = 0; i < result.sizes.size(); ++i)
      mask[static_cast<int64_t>(i)].narrow(0, 0, result.sizes[i].height).narrow(1, 0, result.sizes[i].width).fill_(1);
  }
  return result;
}

}  // namespace easydel
