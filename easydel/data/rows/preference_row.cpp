#include "easydel/data/rows/preference_row.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/data/sources/text_codec.h"

namespace easydel::data {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// The last character of the common prefix is left to the answers when one is a prefix of the other, and so is a space
// before the first difference.
std::size_t prompt_length(std::string_view chosen, std::string_view rejected) {
  std::size_t at = common_text(chosen, rejected);
  const bool differs = at < chosen.size() && at < rejected.size();
  if (differs) return at > 0 && chosen[at - 1] == ' ' ? at - 1 : at;
  while (at > 0 && is_continuation(chosen[--at])) {
  }
  return at;
}

Json part(const Json& messages, std::size_t begin, std::size_t end) {
  Json out = Json::array();
  for (std::size_t i = begin; i < end; ++i) out.push_back(messages.at(i));
  return out;
}

void split_texts(PreferenceRow& row) {
  const std::string chosen = row.chosen.as_string(), rejected = row.rejected.as_string();
  const std::size_t length = prompt_length(chosen, rejected);
  row.prompt = chosen.substr(0, length);
  row.chosen = chosen.substr(length);
  row.rejected = rejected.substr(length);
}

void split_messages(PreferenceRow& row) {
  const std::size_t both = std::min(row.chosen.size(), row.rejected.size());
  std::size_t length = 0;
  while (length + 1 < both && row.chosen.at(length) == row.rejected.at(length)) ++length;
  row.prompt = part(row.chosen, 0, length);
  row.rejected = part(row.rejected, length, row.rejected.size());
  row.chosen = part(row.chosen, length, row.chosen.size());
}

}  // namespace

std::size_t common_text(std::string_view a, std::string_view b) {
  auto at = static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  while (at > 0 && ((at < a.size() && is_continuation(a[at])) || (at < b.size() && is_continuation(b[at])))) --at;
  return at;
}

PreferenceRow read_preference(const Row& row, bool mixed_prompt) {
  PreferenceRow out{.chosen = field_of(row, "chosen"), .rejected = field_of(row, "rejected")};
  out.is_conversational = is_conversation(out.chosen);
  const auto check = [&](const char* name, const Json& value) {
    const bool fits = out.is_conversational ? is_conversation(value) : value.is_string();
    require<FormatError>(fits, "[", row.place(), "] \"", name, "\" must be ",
                         out.is_conversational ? "a list of messages, as \"chosen\" is"
                                               : "a text, or chosen, rejected "
                                                 "and prompt lists of messages",
                         "; got ", value.type_name(), ".");
  };
  check("chosen", out.chosen);
  check("rejected", out.rejected);
  const Json* prompt = row.values.find("prompt");
  const bool counts = prompt && (!mixed_prompt || is_conversation(*prompt) == out.is_conversational);
  if (counts) {
    check("prompt", *prompt);
    out.prompt = *prompt;
  } else if (out.is_conversational) {
    split_messages(out);
  } else {
    split_texts(out);
  }
  return out;
}

}  // namespace easydel::data
