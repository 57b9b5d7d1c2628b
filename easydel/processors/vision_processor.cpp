#include "easydel/processors/vision_processor.h"

#include "easydel/core/error.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

constexpr const char* kQwenToken = "<|image_pad|>";

// Qwen's files before transformers 5: the image processor alone, which names the class of both.
bool has_old_processor(const fs::path& directory) {
  const fs::path file = directory / "preprocessor_config.json";
  if (!fs::exists(file)) return false;
  const Json json = Json::parse_file(file.string());
  const Json* type = json.find("processor_class");
  return type && type->is_string() && type->as_string().starts_with("Qwen");
}

}  // namespace

VisionProcessor::VisionProcessor(ImageProcessor images, const Json& json, const std::string& where)
    : images_(std::move(images)) {
  const auto given = [&](const char* key) -> const Json* {
    const Json* value = json.find(key);
    return value && !value->is_null() ? value : nullptr;
  };
  const Json* type = given("processor_class");
  require<NotSupportedError>(!type || *type == Json("LlavaProcessor") || images_.makes_patches(), where,
                             "processor_class must be LlavaProcessor, or one of Qwen's with a Qwen2VLImageProcessor; "
                             "got ",
                             type ? type->dump() : "", ".");
  if (images_.makes_patches()) {
    image_token_ = kQwenToken;
    return;
  }
  const Json* patch = given("patch_size");
  require<ConfigError>(patch && patch->is_int() && patch->as_int() > 0, where,
                       "patch_size must be a positive number; got ", patch ? patch->dump() : "none", ".");
  patch_size_ = patch->as_int();
  if (const Json* more = given("num_additional_image_tokens")) {
    require<ConfigError>(more->is_int() && more->as_int() >= 0, where,
                         "num_additional_image_tokens must be a number from 0; got ", more->dump(), ".");
    additional_tokens_ = more->as_int();
  }
  if (const Json* token = given("image_token")) {
    require<ConfigError>(token->is_string() && !token->as_string().empty(), where, "image_token must be a text; got ",
                         token->dump(), ".");
    image_token_ = token->as_string();
  }
  if (const Json* strategy = given("vision_feature_select_strategy")) {
    require<ConfigError>(*strategy == Json("default") || *strategy == Json("full"), where,
                         "vision_feature_select_strategy must be default or full; got ", strategy->dump(), ".");
    leaves_class_token_out_ = *strategy == Json("default");
  }
}

bool VisionProcessor::is_in(const fs::path& directory) {
  return fs::exists(directory / "processor_config.json") || has_old_processor(directory);
}

VisionProcessor VisionProcessor::from_directory(const fs::path& directory) {
  const fs::path file = directory / "processor_config.json";
  require<ConfigError>(is_in(directory), "[VisionProcessor] ", directory.string(),
                       " must have a processor_config.json, which says what pictures become in a text; got none.");
  const fs::path read = fs::exists(file) ? file : directory / "preprocessor_config.json";
  return {AutoImageProcessor::from_directory(directory), Json::parse_file(read.string()),
          "[VisionProcessor] " + read.string() + ": "};
}

VisionProcessor VisionProcessor::from_pretrained(const std::string& name_or_path, const HubOptions& hub) {
  return from_directory(resolve(name_or_path, hub));
}

PictureInputs VisionProcessor::operator()(const std::vector<at::Tensor>& pictures) const {
  PictureInputs inputs;
  if (images_.makes_patches()) {
    const ImagePatches patches = images_.patches(pictures);
    inputs.pixel_values = patches.pixel_values;
    inputs.image_grid_thw = patches.image_grid_thw;
    const int64_t unit = images_.steps().merge_size * images_.steps().merge_size;
    for (int64_t i = 0; i < patches.image_grid_thw.size(0); ++i)
      inputs.tokens.push_back(patches.image_grid_thw[i].prod().item<int64_t>() / unit);
    return inputs;
  }
  inputs.pixel_values = images_(pictures);
  const int64_t features = (inputs.pixel_values.size(2) / patch_size_) * (inputs.pixel_values.size(3) / patch_size_) +
                           additional_tokens_ - (leaves_class_token_out_ ? 1 : 0);
  require<ShapeError>(features > 0, "[VisionProcessor] pictures of ", inputs.pixel_values.size(2), " x ",
                      inputs.pixel_values.size(3), " must have a patch of ", patch_size_, "; got ", features, ".");
  inputs.tokens.assign(pictures.size(), features);
  return inputs;
}

PictureInputs VisionProcessor::load(const std::vector<std::string>& files) const {
  std::vector<at::Tensor> pictures;
  for (const std::string& file : files) pictures.push_back(images_.load(file));
  return (*this)(pictures);
}

std::string VisionProcessor::expand(const std::string& text, const PictureInputs& pictures) const {
  std::string result;
  std::size_t places = 0, at = 0;
  for (std::size_t next; (next = text.find(image_token_, at)) != std::string::npos; at = next + image_token_.size()) {
    result += text.substr(at, next - at);
    const int64_t features = places < pictures.tokens.size() ? pictures.tokens[places] : 0;
    for (int64_t i = 0; i < features; ++i) result += image_token_;
    ++places;
  }
  require<ConfigError>(places == pictures.tokens.size(), "[VisionProcessor] the text must have a placeholder ",
                       image_token_, " for each picture; got ", places, " for ", pictures.tokens.size(), ".");
  return result + text.substr(at);
}

}  // namespace easydel
