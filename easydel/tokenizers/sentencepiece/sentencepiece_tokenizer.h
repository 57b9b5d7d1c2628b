// tokenizer.model files, read and run by sentencepiece's own library.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/tokenizers/tokenizer.h"

namespace easydel {

// A token that is matched in the text before sentencepiece processes the rest.
struct SentencePieceAddedToken {
  int32_t id = 0;  // of a piece with the same content, or beyond the pieces
  std::string content;
  bool special = false;
  bool lstrip = false, rstrip = false;  // strips the white space on that side
  bool single_word = false;             // not next to a letter, a digit, an underscore or a non-ASCII character
};

struct SentencePieceOptions {
  bool add_bos = false, add_eos = false;
  std::string bos_token, eos_token;  // empty: the model's own
  // The dummy prefix of a model ("▁", if its add_dummy_prefix is set): before every stretch between two added tokens,
  // or else only before a text that does not begin with one.
  bool legacy = true;
  std::vector<SentencePieceAddedToken> added_tokens;
};

// Immutable and thread-safe. Without added tokens its results are the library's own.
class SentencePieceTokenizer : public Tokenizer {
 public:
  // IoError when it cannot be read, FormatError for an invalid model, ConfigError for options that do not match it,
  // NotSupportedError in a build without sentencepiece.
  static std::unique_ptr<SentencePieceTokenizer> open(const std::filesystem::path& path,
                                                      const SentencePieceOptions& options = {});
  static std::unique_ptr<SentencePieceTokenizer> from_bytes(std::string_view bytes,
                                                            const SentencePieceOptions& options = {},
                                                            const std::string& where = "the model");
  ~SentencePieceTokenizer() override;

  // Invalid UTF-8 counts as U+FFFD.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const override;
  // Added and control tokens appear in the text unchanged, unless they are skipped. ConfigError on an unknown id.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens = true) const override;
  std::optional<int32_t> token_to_id(std::string_view token) const override;
  std::optional<std::string> id_to_token(int32_t id) const override;
  int64_t vocab_size() const override;
  bool is_special(int32_t id) const override;  // control pieces, <unk> and special added tokens

  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> unk_id() const;
  std::optional<int32_t> pad_id() const;
  bool is_byte(int32_t id) const;  // a piece such as <0x0A>

 private:
  struct Impl;
  explicit SentencePieceTokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace easydel
