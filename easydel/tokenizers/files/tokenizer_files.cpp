#include "easydel/tokenizers/files/tokenizer_files.h"

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/gguf/gguf_file.h"
#include "easydel/tokenizers/files/gguf_tokenizer.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFileNames[] = {"tokenizer.json",
                                      "tokenizer.model",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "added_tokens.json",
                                      "vocab.json",
                                      "vocab.txt",
                                      "merges.txt",
                                      "chat_template.jinja",
                                      "chat_template.json"};
constexpr const char* kTemplates = "additional_chat_templates";

}  // namespace

TokenizerFiles TokenizerFiles::read(const fs::path& directory_or_gguf) {
  TokenizerFiles result;
  std::error_code ignored;
  const auto add = [&](const std::string& name) {
    const fs::path path = directory_or_gguf / name;
    if (fs::is_regular_file(path, ignored))
      result.files_.emplace(name, std::make_shared<const std::string>(read_file(path)));
  };
  for (const char* name : kFileNames) add(name);
  const fs::path templates = directory_or_gguf / kTemplates;
  if (fs::is_directory(templates, ignored)) {
    for (const std::string& name : list_directory(templates)) {
      if (name.ends_with(".jinja")) add(concat(kTemplates, "/", name));
    }
  }
  if (!result.files_.contains("tokenizer.json") && !result.files_.contains("tokenizer.model")) {
    if (const auto gguf = find_gguf(directory_or_gguf); gguf && has_tokenizer(GgufFile::open(*gguf)->container()))
      result.gguf_ = *gguf;
  }
  return result;
}

void TokenizerFiles::write(const fs::path& directory) const {
  for (const auto& [name, content] : files_) {
    const fs::path path = directory / name;
    if (path.parent_path() != directory) make_directory(path.parent_path());
    write_file_atomically(path, *content);
  }
  if (gguf_.empty()) return;
  const auto gguf = GgufFile::open(gguf_);
  for (const auto& [name, content] : gguf_tokenizer_files(gguf->container(), gguf->where()))
    write_file_atomically(directory / name, content);
}

}  // namespace easydel
