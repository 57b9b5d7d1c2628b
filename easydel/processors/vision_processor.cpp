#include "easydel/processors/vision_processor.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

// Qwen's files before transformers 5: the image processor alone, which names the class of both.
bool has_old_processor(const fs::path& directory) {
  const fs::path file = directory / "preprocessor_config.json";
  if (!fs::exists(file)) return false;
  const Json json = Json::parse_file(file.string());
  const Json* type = json.find("processor_class");
  return type && type->is_string() && type->as_string().starts_with("Qwen");
}

}  // namespace

VisionProcessor::VisionProcessor(ImageProcessor images, std::shared_ptr<const PicturePrompts> prompts)
    : images_(std::move(images)), prompts_(std::move(prompts)) {
  prompts_->adjust(images_);
}

bool VisionProcessor::is_in(const fs::path& directory) {
  return fs::exists(directory / "processor_config.json") || has_old_processor(directory);
}

VisionProcessor VisionProcessor::from_directory(const fs::path& directory) {
  const fs::path file = directory / "processor_config.json", tokenizer = directory / "tokenizer_config.json";
  require<ConfigError>(is_in(directory), "[VisionProcessor] ", directory.string(),
                       " must have a processor_config.json, which says what pictures become in a text; got none.");
  const fs::path read = fs::exists(file) ? file : directory / "preprocessor_config.json";
  return {AutoImageProcessor::from_directory(directory),
          make_picture_prompts(Json::parse_file(read.string()),
                               fs::exists(tokenizer) ? Json::parse_file(tokenizer.string()) : Json::object(),
                               "[VisionProcessor] " + read.string() + ": ")};
}

VisionProcessor VisionProcessor::from_pretrained(const std::string& name_or_path, const HubOptions& hub) {
  return from_directory(resolve(name_or_path, hub));
}

void VisionProcessor::set_pan_and_scan(const PanAndScan& options) {
  require<ConfigError>(images_.class_name() == "Gemma3ImageProcessor",
                       "[VisionProcessor] pan and scan is Gemma 3's; got ", images_.class_name(), ".");
  images_.set_pan_and_scan(options);
}

PictureInputs VisionProcessor::operator()(const std::vector<at::Tensor>& pictures) const {
  const ProcessedImages processed = images_.process(pictures);
  PicturePrompt prompt = (*prompts_)(processed);
  PictureInputs inputs{processed.pixel_values, std::move(prompt.tokens), std::move(prompt.texts)};
  if (images_.steps().patch_size.height) {
    std::vector<int64_t> sizes;
    for (const HeightWidth& size : processed.sizes) sizes.insert(sizes.end(), {size.height, size.width});
    inputs.image_sizes = at::tensor(sizes, at::kLong).view({-1, 2});
  }
  inputs.pixel_attention_mask = processed.pixel_attention_mask;
  inputs.image_grid_thw = processed.image_grid_thw;
  return inputs;
}

PictureInputs VisionProcessor::load(const std::vector<std::string>& files) const {
  std::vector<at::Tensor> pictures;
  for (const std::string& file : files) pictures.push_back(images_.load(file));
  return (*this)(pictures);
}

std::string VisionProcessor::expand(const std::string& text, const PictureInputs& pictures) const {
  const std::string& placeholder = prompts_->placeholder();
  std::string result;
  std::size_t places = 0, at = 0;
  for (std::size_t next; (next = text.find(placeholder, at)) != std::string::npos; at = next + placeholder.size()) {
    result += text.substr(at, next - at);
    if (places < pictures.texts.size()) result += pictures.texts[places];
    ++places;
  }
  require<ConfigError>(places == pictures.texts.size(), "[VisionProcessor] the text must have a placeholder ",
                       placeholder, " for each picture; got ", places, " for ", pictures.texts.size(), ".");
  return result + text.substr(at);
}

}  // namespace easydel
