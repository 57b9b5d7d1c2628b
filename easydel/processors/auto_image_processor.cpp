#include <map>

#include "easydel/core/error.h"
#include "easydel/processors/image_processor.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

// Old files have only the model's type.
const std::map<std::string, std::string>& classes_by_model() {
  static const std::map<std::string, std::string> classes{
      {"clip", "CLIPImageProcessor"},          {"dinov2", "BitImageProcessor"},
      {"gemma3", "Gemma3ImageProcessor"},      {"llava", "LlavaImageProcessor"},
      {"mistral3", "PixtralImageProcessor"},   {"pixtral", "PixtralImageProcessor"},
      {"qwen2_5_vl", "Qwen2VLImageProcessor"}, {"qwen2_vl", "Qwen2VLImageProcessor"},
      {"qwen3_vl", "Qwen2VLImageProcessor"},   {"siglip", "SiglipImageProcessor"},
      {"smolvlm", "SmolVLMImageProcessor"},    {"vit", "ViTImageProcessor"}};
  return classes;
}

std::string model_type_of(const fs::path& directory) {
  const fs::path file = directory / "config.json";
  if (!fs::exists(file)) return "";
  const Json config = Json::parse_file(file.string());
  const Json* type = config.find("model_type");
  return type && type->is_string() ? type->as_string() : "";
}

// "CLIPImageProcessor" of "CLIPImageProcessorFast", "CLIPImageProcessorPil" and "CLIPFeatureExtractor".
std::string base_class(std::string name) {
  for (const std::string_view ending : {"Fast", "Pil"}) {
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  }
  constexpr std::string_view kOld = "FeatureExtractor";
  if (name.ends_with(kOld)) name = name.substr(0, name.size() - kOld.size()) + "ImageProcessor";
  return name;
}

}  // namespace

bool AutoImageProcessor::is_in(const fs::path& directory) {
  if (fs::exists(directory / "preprocessor_config.json")) return true;
  const fs::path file = directory / "processor_config.json";
  return fs::exists(file) && Json::parse_file(file.string()).contains("image_processor");
}

ImageProcessor AutoImageProcessor::from_directory(const fs::path& directory) {
  Json json;
  fs::path file = directory / "processor_config.json";
  if (fs::exists(file)) {
    const Json whole = Json::parse_file(file.string());
    if (const Json* nested = whole.find("image_processor")) json = *nested;
  }
  if (json.is_null()) {
    file = directory / "preprocessor_config.json";
    require<ConfigError>(fs::exists(file), "[AutoImageProcessor] ", directory.string(),
                         " must have preprocessor_config.json, or image_processor in processor_config.json; got "
                         "neither.");
    json = Json::parse_file(file.string());
  }
  const std::string where = "[AutoImageProcessor] " + file.string() + ": ";
  require<ConfigError>(json.is_object(), where, "an object is needed; got ", json.type_name(), ".");
  for (const char* key : {"image_processor_type", "feature_extractor_type"}) {
    if (const Json* given = json.find(key); given && given->is_string())
      return {base_class(given->as_string()), json, where};
  }
  const std::string model_type = model_type_of(directory);
  const auto found = classes_by_model().find(model_type);
  require<ConfigError>(found != classes_by_model().end(), where,
                       "image_processor_type must name a class; got none, and config.json's model_type \"", model_type,
                       "\" has none that is known.");
  return {found->second, json, where};
}

ImageProcessor AutoImageProcessor::from_pretrained(const std::string& name_or_path, const HubOptions& hub) {
  return from_directory(resolve(name_or_path, hub));
}

}  // namespace easydel
