// A model's tokenizer with its special tokens and chat templates.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "easydel/io/hub/hub.h"
#include "easydel/tokenizers/files/tokenizer_config.h"
#include "easydel/tokenizers/files/tokenizer_files.h"
#include "easydel/tokenizers/tokenizer.h"

namespace easydel {

class AutoTokenizer {
 public:
  // tokenizer.json, or else tokenizer.model, of a directory or of a repository on the hub; or the tokenizer of a GGUF
  // file. ConfigError when there is none.
  static AutoTokenizer from_pretrained(const std::string& name_or_path, const HubOptions& hub = {});
  static AutoTokenizer from_directory(const std::filesystem::path& directory);
  // A placeholder for a missing tokenizer: any use throws a ConfigError with this message.
  static AutoTokenizer absent(std::string message);
  // Whether a tokenizer is available.
  static bool is_in(const std::filesystem::path& directory);
  // Writes the files it was loaded from into a directory, created if missing.
  void save_pretrained(const std::filesystem::path& directory) const;

  const Tokenizer& operator*() const { return *operator->(); }
  const Tokenizer* operator->() const;
  const std::shared_ptr<const Tokenizer>& shared() const { return tokenizer_; }
  const TokenizerConfig& config() const { return config_; }
  const TokenizerFiles& files() const { return files_; }

  bool has_chat_template() const { return !config_.chat_templates.empty(); }
  // The text of a conversation, special tokens filled in. ConfigError when the model has no chat template.
  RenderedChat apply_chat_template(ChatInput input) const;
  // Its ids; the template writes the special tokens.
  std::vector<int32_t> encode_chat(const ChatInput& input) const;

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  TokenizerConfig config_;
  std::string absent_ = "[tokenizer] no tokenizer is available.";
  TokenizerFiles files_;
};

}  // namespace easydel
