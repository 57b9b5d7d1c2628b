// Token ids from a field of a row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "easydel/data/sources/text_codec.h"

namespace easydel::data {

// The integers of a list. FormatError with the row's location when it is something else, or empty.
Ids integers_of(const Row& row, const std::string& name);

struct TextLimit {
  std::optional<int64_t> tokens;  // none: any number
  bool keeps_end = false;         // of a longer text the last tokens stay, not the first
};

// At most so many ids.
void cut(Ids& ids, const TextLimit& limit);

// Those of a text. As in transformers, a longer text is cut and the tokens that the tokenizer puts around it stay.
Ids encode_within(const TextCodec& codec, std::string_view text, bool add_special_tokens, const TextLimit& limit);

}  // namespace easydel::data
