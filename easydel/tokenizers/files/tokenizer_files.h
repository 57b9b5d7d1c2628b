// The unchanged files of a tokenizer, to be saved with a model's weights.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

namespace easydel {

class TokenizerFiles {
 public:
  // Those of a directory, or the tokenizer of a GGUF file; empty if there is none. They are kept in memory: a run may
  // save them long after the directory has been changed or removed.
  static TokenizerFiles read(const std::filesystem::path& directory_or_gguf);

  bool empty() const { return files_.empty() && gguf_.empty(); }
  // Writes into an existing directory. The tokenizer of a GGUF file becomes tokenizer.json or tokenizer.model, and
  // tokenizer_config.json.
  void write(const std::filesystem::path& directory) const;

 private:
  std::map<std::string, std::shared_ptr<const std::string>> files_;  // contents, by name
  std::filesystem::path gguf_;
};

}  // namespace easydel
