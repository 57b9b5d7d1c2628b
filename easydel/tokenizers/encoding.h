// Post-processing of encodings: truncation, joining, padding.
#pragma once

#include <optional>

#include "easydel/tokenizers/files/json_field.h"
#include "easydel/tokenizers/tokenizer.h"

namespace easydel {

enum class Direction : uint8_t { kLeft, kRight };

struct Truncation {
  enum class Strategy : uint8_t { kLongestFirst, kOnlyFirst, kOnlySecond };
  std::size_t max_length = 512;  // including the special tokens
  Strategy strategy = Strategy::kLongestFirst;
  std::size_t stride = 0;  // tokens that a part shares with the one before it
  Direction direction = Direction::kRight;
};

struct Padding {
  std::optional<std::size_t> fixed;  // none: the longest of the batch
  Direction direction = Direction::kRight;
  std::size_t multiple_of = 0;  // 0: of anything
  int32_t id = 0, type_id = 0;
  std::string token = "[PAD]";
};

std::optional<Truncation> read_truncation(const std::optional<JsonField>& field);
std::optional<Padding> read_padding(const std::optional<JsonField>& field);

struct TokenRange {
  std::size_t begin, end;
};

// How `size` tokens are split into parts of at most `most`, of which the first is kept. ConfigError when the stride
// leaves no room.
std::vector<TokenRange> parts_of(std::size_t size, std::size_t most, const Truncation& truncation);

// How many tokens of a text and of its pair are kept; `max_length` without special tokens. ConfigError when the
// strategy cannot cut enough.
struct Lengths {
  std::size_t first, second;
};
Lengths truncated_lengths(std::size_t first, std::optional<std::size_t> second, std::size_t max_length,
                          const Truncation& truncation);

void append_encoding(Encoding& encoding, const Encoding& other);
void pad_encodings(std::span<Encoding> batch, const Padding& padding);

}  // namespace easydel
