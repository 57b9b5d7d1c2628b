// A preference row with its prompt apart from the answers.
#pragma once

#include "easydel/core/json/json.h"
#include "easydel/data/sources/source.h"

namespace easydel::data {

struct PreferenceRow {
  Json prompt, chosen, rejected;  // all texts, or all lists of messages
  bool is_conversational = false;
};

// With the prompt that the row has, or the common beginning of both answers. FormatError when the three do not go
// together. `mixed_prompt`: a prompt that is text beside answers that are messages does not count as one.
PreferenceRow read_preference(const Row& row, bool mixed_prompt);

// What two texts begin with, in whole characters.
std::size_t common_text(std::string_view a, std::string_view b);

}  // namespace easydel::data
