// A preference row with its prompt apart from the answers.
#pragma once

#include "easydel/core/json/json.h"
#include "easydel/data/sources/source.h"

namespace easydel::data {

struct PreferenceOptions;                      // preference.h
void check(const PreferenceOptions& options);  // ConfigError

struct PreferenceRow {
  Json prompt, chosen, rejected;  // all texts, or all lists of messages
  bool is_conversational = false;
};

// With the row's prompt, or the common prefix of both answers. FormatError when the types of the three do not match.
// `mixed_prompt`: a text prompt with answers that are messages is ignored.
PreferenceRow read_preference(const Row& row, bool mixed_prompt);

// The common prefix of two texts, in whole characters.
std::size_t common_text(std::string_view a, std::string_view b);

}  // namespace easydel::data
