// All that stands between what users have and what a model takes, by the name of its files.
#pragma once

#include <optional>
#include <string>

#include "easydel/processors/feature_extractor.h"
#include "easydel/processors/vision_processor.h"
#include "easydel/tokenizers/auto_tokenizer.h"

namespace easydel {

// The parts that the files have.
struct AutoProcessor {
  std::optional<AutoTokenizer> tokenizer;
  std::optional<ImageProcessor> image_processor;
  std::optional<VisionProcessor> vision_processor;  // of models that read texts with images in them
  std::optional<WhisperFeatureExtractor> feature_extractor;

  // Of a directory, or of a repository on the hub. ConfigError when there is no part at all, and what each part says of
  // wrong files.
  static AutoProcessor from_pretrained(const std::string& name_or_path, const HubOptions& hub = {});
  static AutoProcessor from_directory(const std::filesystem::path& directory);
};

}  // namespace easydel
