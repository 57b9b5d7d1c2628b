// A tokenizer described by tokenizer.json, the format of Hugging Face's tokenizers.
#pragma once

#include <filesystem>
#include <memory>

#include "easydel/tokenizers/encoding.h"
#include "easydel/tokenizers/tokenizer.h"

namespace easydel {

class PreTokenized;

// A pair of texts, such as question and answer.
struct TextPair {
  std::string_view first;
  std::optional<std::string_view> second = std::nullopt;
};

// Encoding gives the same ids and offsets as the tokenizers package, with offsets in bytes. Thread-safe.
class JsonTokenizer final : public Tokenizer {
 public:
  // IoError when the file cannot be read. FormatError with the JSON path of what is wrong; NotSupportedError when the
  // build lacks a library that the tokenizer needs.
  static std::shared_ptr<JsonTokenizer> from_file(const std::filesystem::path& path);
  static std::shared_ptr<JsonTokenizer> from_json(std::string_view text, const std::string& where = "tokenizer.json");
  ~JsonTokenizer() override;

  // FormatError on text that is not UTF-8 or that exceeds 1 GiB.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const override;
  Encoding encode_pair(const TextPair& texts, const EncodeOptions& options = {}) const;
  // On `threads` threads, or one for each core when 0; padded as one batch where the tokenizer pads.
  std::vector<Encoding> encode_batch(std::span<const std::string> texts, const EncodeOptions& options = {},
                                     int threads = 0) const;
  std::vector<Encoding> encode_batch(std::span<const TextPair> texts, const EncodeOptions& options = {},
                                     int threads = 0) const;

  // Ids that the tokenizer does not have are left out.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens = true) const override;
  std::optional<int32_t> token_to_id(std::string_view token) const override;
  std::optional<std::string> id_to_token(int32_t id) const override;
  int64_t vocab_size() const override;
  bool is_special(int32_t id) const override;

  // Not thread-safe.
  const std::optional<Truncation>& truncation() const;
  const std::optional<Padding>& padding() const;
  void set_truncation(const std::optional<Truncation>& truncation);  // ConfigError when it leaves no room for a text
  void set_padding(std::optional<Padding> padding);

 private:
  struct Parts;
  class Borrowed;
  struct Work;
  struct Tokens;
  explicit JsonTokenizer(std::unique_ptr<Parts> parts);

  Encoding encode_with(Work& work, const TextPair& texts, const EncodeOptions& options) const;
  Tokens tokenize(Work& work, std::string_view text, bool full) const;
  void normalize(Work& work, std::string_view text, PreTokenized& pre) const;
  std::vector<Encoding> build(const Tokens& tokens, std::size_t most, int32_t type_id, bool full) const;

  std::unique_ptr<Parts> parts_;
};

}  // namespace easydel
