// The files of a tokenizer as they are: what a saved model needs beside its weights before anybody can talk to it.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

namespace easydel {

class TokenizerFiles {
 public:
  // Those that a directory has, or the tokenizer of a GGUF file; empty where there is none. They are held in memory:
  // a run may save them long after somebody has changed or removed the directory.
  static TokenizerFiles read(const std::filesystem::path& directory_or_gguf);

  bool empty() const { return files_.empty() && gguf_.empty(); }
  // Into a directory that is there. The tokenizer of a GGUF file becomes tokenizer.json or tokenizer.model, and
  // tokenizer_config.json.
  void write(const std::filesystem::path& directory) const;

 private:
  std::map<std::string, std::shared_ptr<const std::string>> files_;  // contents, by name
  std::filesystem::path gguf_;
};

}  // namespace easydel
