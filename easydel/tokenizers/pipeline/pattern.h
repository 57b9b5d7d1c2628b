// The pattern of Split and Replace: a string or a regular expression.
#pragma once

#include <optional>
#include <string>

#include "easydel/text/regex/regex.h"
#include "easydel/tokenizers/files/json_field.h"

namespace easydel {

class Pattern {
 public:
  explicit Pattern(const JsonField& field);  // {"String": …} or {"Regex": …}

  bool is_regex() const { return regex_.has_value(); }
  void find_all(std::string_view text, std::vector<Offset>& matches) const;

 private:
  std::string literal_;
  std::optional<Regex> regex_;
};

}  // namespace easydel
