// The texts of grammars: what they may be before a compiler sees them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/serve/engine/request.h"

namespace easydel::serve {

inline constexpr std::size_t kMaxGrammarText = std::size_t{256} << 10;
inline constexpr std::size_t kMaxGrammarBytes = std::size_t{128} << 10;
inline constexpr std::string_view kAnyObjectSchema = R"({"type": "object"})";

std::string_view grammar_kind_name(GrammarSpec::Kind kind);  // "the JSON schema", "the regular expression", …

// ConfigError for a text that is too long or too deep, is not what its kind says, or holds a rule that would be
// ignored.
void check_grammar(const GrammarSpec& spec);

// A grammar that matches one of the texts.
std::string choice_ebnf(const std::vector<std::string>& choices);

}  // namespace easydel::serve
