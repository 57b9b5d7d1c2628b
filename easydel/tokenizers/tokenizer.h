// Text to token ids and back, for any tokenizer format.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/text/offset.h"

namespace easydel {

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
  std::vector<Offset> offsets;    // byte ranges of the input text, one for each token
  std::vector<int32_t> word_ids;  // -1: none
  std::vector<uint8_t> special_tokens_mask;
  std::vector<uint8_t> attention_mask;
  std::vector<Encoding> overflowing;  // the parts that truncation cut off
  std::size_t size() const { return ids.size(); }
  friend bool operator==(const Encoding&, const Encoding&) = default;
};

struct EncodeOptions {
  bool add_special_tokens = true;
  // Otherwise only the ids are filled in, and the attention mask where there is padding, which is faster.
  bool offsets = true;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual Encoding encode(std::string_view text, const EncodeOptions& options = {}) const = 0;
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special_tokens = true) const = 0;
  virtual std::optional<int32_t> token_to_id(std::string_view token) const = 0;
  virtual std::optional<std::string> id_to_token(int32_t id) const = 0;
  virtual int64_t vocab_size() const = 0;  // including the added tokens
  virtual bool is_special(int32_t id) const = 0;

  std::vector<int32_t> encode_ids(std::string_view text, bool add_special_tokens = true) const {
    return encode(text, {.add_special_tokens = add_special_tokens, .offsets = false}).ids;
  }
};

}  // namespace easydel
