// What stands beside the weights and the config of a model: generation_config.json, and the files of its tokenizer and
// of its processor.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "easydel/core/json/json.h"
#include "easydel/tokenizers/files/tokenizer_files.h"

namespace easydel {

struct Companions {
  Json generation_config = {};         // null: there is none, and the model's config says what there is to say
  std::string generation_config_file;  // where it was read from, for messages
  TokenizerFiles tokenizer = {};
  std::map<std::string, std::string> processor = {};  // preprocessor_config.json and processor_config.json

  // What a directory, or a GGUF file, has of them. FormatError names a file that is no JSON.
  static Companions read(const std::filesystem::path& directory_or_gguf);
  void write(const std::filesystem::path& directory) const;
};

}  // namespace easydel
