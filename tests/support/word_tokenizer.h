// A tokenizer whose ids can be told by hand: words apart by spaces, "a" is 5, "b" is 6 and so on. Texts begin with <s>,
// and the chat template says which words are the assistant's.
#pragma once

#include <filesystem>
#include <string>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/json/json.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace easydel::testing_support {

inline constexpr int64_t kWordTokens = 5 + 26;

inline void write_word_tokenizer(const std::filesystem::path& directory) {
  Json vocabulary = Json::object({{"<pad>", 0}, {"<s>", 1}, {"</s>", 2}, {"<unk>", 3}, {"<end>", 4}});
  Json added = Json::array();
  for (const auto& [token, id] : vocabulary.as_object()) {
    added.push_back(Json::object({{"id", id},
                                  {"content", token},
                                  {"single_word", false},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"special", true}}));
  }
  for (int i = 0; i < 26; ++i) vocabulary[std::string(1, static_cast<char>('a' + i))] = 5 + i;
  const Json file =
      Json::object({{"version", "1.0"},
                    {"truncation", Json()},
                    {"padding", Json()},
                    {"added_tokens", added},
                    {"normalizer", Json()},
                    {"pre_tokenizer", Json::object({{"type", "WhitespaceSplit"}})},
                    {"post_processor", Json::parse(R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}})")},
                    {"decoder", Json()},
                    {"model", Json::object({{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}})}});
  const Json config = Json::object(
      {{"tokenizer_class", "PreTrainedTokenizerFast"},
       {"model_max_length", 64},
       {"pad_token", "<pad>"},
       {"bos_token", "<s>"},
       {"eos_token", "</s>"},
       {"extra_special_tokens", Json::array({"<end>"})},
       {"chat_template",
        "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }} </s> {% endgeneration %}"
        "{% else %}{{ m.content }} {% endif %}{% endfor %}"}});
  std::filesystem::create_directories(directory);
  write_file_atomically(directory / "tokenizer.json", file.dump());
  write_file_atomically(directory / "tokenizer_config.json", config.dump());
}

inline const AutoTokenizer& word_tokenizer() {
  static const AutoTokenizer tokenizer = [] {
    const TemporaryDirectory directory;
    write_word_tokenizer(directory.path());
    return AutoTokenizer::from_directory(directory.path());
  }();
  return tokenizer;
}

}  // namespace easydel::testing_support
