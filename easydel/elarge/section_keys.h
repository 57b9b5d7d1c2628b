// EasyDeL's keys that are no fields here: those that mean nothing here, and those that ask for what there is not yet.
#pragma once

#include <span>
#include <string_view>

#include "easydel/core/json.h"

namespace easydel {

struct SectionKeys {
  std::string_view section;                   // "mixture.informs" for its elements
  std::span<const std::string_view> ignored;  // another way of computing the same, or another machine
  std::span<const std::string_view> not_yet;  // refused, unless null, false or empty
};

// Empty lists for a section without such keys.
SectionKeys section_keys(std::string_view section);

bool among(std::string_view key, std::span<const std::string_view> names);

// Whether a value of a key that is not supported wants something: not null, false, 0, "" and what is empty.
bool asks(const Json& value);

// All sections that a file may have.
std::span<const std::string_view> section_names();

}  // namespace easydel
