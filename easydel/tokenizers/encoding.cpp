#include "easydel/tokenizers/encoding.h"

#include <algorithm>

#include "easydel/core/error.h"

namespace easydel {
namespace {

constexpr int64_t kMaxPadding = int64_t{1} << 20;

Direction read_direction(const std::optional<JsonField>& field) {
  return field ? static_cast<Direction>(field->one_of({"Left", "Right"})) : Direction::kRight;
}

template <class T>
void extend(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

void pad_to(Encoding& encoding, std::size_t length, const Padding& padding) {
  for (Encoding& part : encoding.overflowing) pad_to(part, length, padding);
  if (encoding.ids.size() >= length) return;
  const std::size_t missing = length - encoding.ids.size();
  const bool full = encoding.offsets.size() == encoding.ids.size();
  const auto put = [&](auto& values, auto value) {
    values.insert(padding.direction == Direction::kLeft ? values.begin() : values.end(), missing, value);
  };
  put(encoding.attention_mask, uint8_t{0});
  if (full) {
    put(encoding.type_ids, padding.type_id);
    put(encoding.offsets, Offset{});
    put(encoding.word_ids, int32_t{-1});
    put(encoding.special_tokens_mask, uint8_t{1});
  }
  put(encoding.ids, padding.id);
}

}  // namespace

std::optional<Truncation> read_truncation(const std::optional<JsonField>& field) {
  if (!field) return std::nullopt;
  Truncation truncation;
  truncation.direction = read_direction(field->find("direction"));
  truncation.max_length = static_cast<std::size_t>((*field)["max_length"].as_int(0, INT64_MAX));
  truncation.strategy =
      static_cast<Truncation::Strategy>((*field)["strategy"].one_of({"LongestFirst", "OnlyFirst", "OnlySecond"}));
  truncation.stride = static_cast<std::size_t>((*field)["stride"].as_int(0, INT64_MAX));
  return truncation;
}

std::optional<Padding> read_padding(const std::optional<JsonField>& field) {
  if (!field) return std::nullopt;
  Padding padding;
  const JsonField strategy = (*field)["strategy"];
  if (strategy.json().is_object()) {
    padding.fixed = static_cast<std::size_t>(strategy["Fixed"].as_int(0, kMaxPadding));
  } else {
    strategy.one_of({"BatchLongest"});
  }
  padding.direction = read_direction((*field)["direction"]);
  if (const auto multiple = field->find("pad_to_multiple_of")) {
    padding.multiple_of = static_cast<std::size_t>(multiple->as_int(0, kMaxPadding));
  }
  padding.id = static_cast<int32_t>((*field)["pad_id"].as_int(0, INT32_MAX));
  padding.type_id = static_cast<int32_t>((*field)["pad_type_id"].as_int(0, INT32_MAX));
  padding.token = (*field)["pad_token"].as_string();
  return padding;
}

std::vector<TokenRange> parts_of(std::size_t size, std::size_t most, const Truncation& truncation) {
  if (most >= size) return {{0, size}};
  if (most == 0) return {{0, 0}, {0, size}};
  require<ConfigError>(truncation.stride < most,
                       "[Tokenizer] the stride of a truncation must be less than the length of ", "a part; got ",
                       truncation.stride, " and ", most, ".");
  const std::size_t step = most - truncation.stride;
  // A stride close to the length of a part would repeat every token hundreds of times.
  constexpr std::size_t kRepeats = 64;
  constexpr std::size_t kAlways = 1 << 16;
  require<ConfigError>(most / step <= kRepeats || size / step <= kAlways / most, "[Tokenizer] parts of ", most,
                       " tokens with a stride of ", truncation.stride, " would repeat each of ", size, " tokens ",
                       most / step, " times; the limit is ", kRepeats, ".");
  std::vector<TokenRange> parts;
  if (truncation.direction == Direction::kRight) {
    for (std::size_t begin = 0; begin < size; begin += step) {
      parts.push_back({begin, std::min(begin + most, size)});
      if (parts.back().end == size) break;
    }
  } else {
    for (std::size_t end = size;; end -= step) {
      parts.push_back({end > most ? end - most : 0, end});
      if (parts.back().begin == 0 || end <= step) break;
    }
  }
  return parts;
}

Lengths truncated_lengths(std::size_t first, std::optional<std::size_t> second, std::size_t max_length,
                          const Truncation& truncation) {
  using Strategy = Truncation::Strategy;
  const std::size_t other = second.value_or(0);
  if (max_length == 0) return {0, 0};
  if (first + other <= max_length) return {first, other};
  const std::size_t excess = first + other - max_length;
  if (truncation.strategy == Strategy::kLongestFirst) {
    if (!second) return {first - excess, 0};
    std::size_t shorter = std::min(first, other);
    std::size_t longer = shorter > max_length ? shorter : std::max(shorter, max_length - shorter);
    if (shorter + longer > max_length) {
      shorter = max_length / 2;
      longer = shorter + max_length % 2;
    }
    return first > other ? Lengths{longer, shorter} : Lengths{shorter, longer};
  }
  const bool cuts_first = truncation.strategy == Strategy::kOnlyFirst;
  require<ConfigError>(cuts_first || second, "[Tokenizer] truncation of only the second text needs a second text.");
  require<ConfigError>((cuts_first ? first : other) > excess, "[Tokenizer] the text to truncate has ",
                       cuts_first ? first : other, " tokens; ", excess, " would have to be removed.");
  return cuts_first ? Lengths{first - excess, other} : Lengths{first, other - excess};
}

void append_encoding(Encoding& encoding, const Encoding& other) {
  std::vector<Encoding> overflowing;
  for (const Encoding& part : encoding.overflowing) {
    overflowing.push_back(part);
    append_encoding(overflowing.back(), other);
    for (const Encoding& other_part : other.overflowing) {
      overflowing.push_back(part);
      append_encoding(overflowing.back(), other_part);
    }
  }
  for (const Encoding& other_part : other.overflowing) {
    Encoding joined = encoding;
    append_encoding(joined, other_part);
    overflowing.push_back(std::move(joined));
  }
  extend(encoding.ids, other.ids);
  extend(encoding.type_ids, other.type_ids);
  extend(encoding.offsets, other.offsets);
  extend(encoding.word_ids, other.word_ids);
  extend(encoding.special_tokens_mask, other.special_tokens_mask);
  extend(encoding.attention_mask, other.attention_mask);
  encoding.overflowing = std::move(overflowing);
}

void pad_encodings(std::span<Encoding> batch, const Padding& padding) {
  if (batch.empty()) return;
  std::size_t length = padding.fixed.value_or(0);
  if (!padding.fixed) {
    for (const Encoding& encoding : batch) length = std::max(length, encoding.size());
  }
  if (padding.multiple_of > 0 && length % padding.multiple_of > 0) {
    length += padding.multiple_of - length % padding.multiple_of;
  }
  for (Encoding& encoding : batch) pad_to(encoding, length, padding);
}

}  // namespace easydel
