#include "easydel/processors/auto_processor.h"

#include "easydel/core/error.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

Json read_object(const fs::path& file) {
  if (!fs::exists(file)) return Json::object();
  Json json = Json::parse_file(file.string());
  require<ConfigError>(json.is_object(), "[AutoProcessor] ", file.string(), ": an object is needed; got ",
                       json.type_name(), ".");
  return json;
}

bool names(const Json& json, const char* key, std::initializer_list<std::string_view> classes) {
  const Json* name = json.find(key);
  if (!name || !name->is_string()) return false;
  for (const std::string_view each : classes) {
    if (name->as_string() == each) return true;
  }
  return false;
}

}  // namespace

AutoProcessor AutoProcessor::from_directory(const fs::path& directory) {
  const Json whole = read_object(directory / "processor_config.json");
  const Json own = read_object(directory / "preprocessor_config.json");
  const bool is_speech =
      whole.contains("feature_extractor") || names(own, "feature_extractor_type", {"WhisperFeatureExtractor"});
  const bool sees = !is_speech && AutoImageProcessor::is_in(directory);
  // Texts and images go to two towers there, and meet behind them.
  const bool apart = names(whole, "processor_class", {"CLIPProcessor", "SiglipProcessor"});
  AutoProcessor parts;
  if (AutoTokenizer::is_in(directory)) parts.tokenizer = AutoTokenizer::from_directory(directory);
  if (is_speech) parts.feature_extractor = AutoFeatureExtractor::from_directory(directory);
  if (sees) parts.image_processor = AutoImageProcessor::from_directory(directory);
  if (sees && !apart && VisionProcessor::is_in(directory))
    parts.vision_processor = VisionProcessor::from_directory(directory);
  require<ConfigError>(parts.tokenizer || is_speech || sees, "[AutoProcessor] ", directory.string(),
                       " must have a tokenizer, preprocessor_config.json or processor_config.json; got none.");
  return parts;
}

AutoProcessor AutoProcessor::from_pretrained(const std::string& name_or_path, const HubOptions& hub) {
  return from_directory(resolve(name_or_path, hub));
}

}  // namespace easydel
