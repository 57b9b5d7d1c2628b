// The files next to tokenizer.json: special tokens, lengths and chat templates.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/tokenizers/chat_template.h"

namespace easydel {

struct TokenizerConfig {
  // Reads tokenizer_config.json, special_tokens_map.json, chat_template.jinja, additional_chat_templates/*.jinja and
  // chat_template.json, those that exist, with the same precedence as transformers. IoError, FormatError.
  static TokenizerConfig load(const std::filesystem::path& directory);

  // "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token", then those of the model
  // itself, such as "image_token".
  std::vector<std::pair<std::string, std::string>> special_tokens;
  std::vector<std::string> extra_special_tokens;  // without a name

  std::optional<int64_t> model_max_length;  // absent: no limit
  std::optional<bool> add_bos_token, add_eos_token;
  std::string tokenizer_class;
  ChatTemplates chat_templates;
  Json values = Json::object();  // tokenizer_config.json unchanged, including unknown keys

  std::optional<std::string> special_token(std::string_view name) const;
  Json template_variables() const;  // the special tokens, as chat templates get them
};

}  // namespace easydel
