// EasyDeL's keys that are not fields here: those without an effect, and those for unsupported features.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {

struct OtherKey {
  std::string_view name;
  // The value that disables the feature, as JSON; null always does, and any other value is refused. "*": every
  // value is accepted, and a note says that it has no effect.
  std::string_view accepted;
  std::string_view says;  // the reason, or what to use instead; a sentence

  bool is_noted() const { return accepted == "*"; }
  bool accepts(const Json& value) const;
};

// Sections are named as in "mixture.informs"; empty for one without such keys.
std::span<const OtherKey> other_keys(std::string_view section);
const OtherKey* other_key(std::string_view section, std::string_view key);

bool among(std::string_view key, std::span<const std::string_view> names);

// Whether a value of a key that is not supported wants something: not null, false, 0, "" and what is empty.
bool asks(const Json& value);

// All sections that a file may have.
std::span<const std::string_view> section_names();

}  // namespace easydel
