// Filters rows by an expression of their fields.
#pragma once

#include <string>

#include "easydel/data/sources/source.h"
#include "easydel/text/jinja/template.h"

namespace easydel::data {

// A Jinja expression, such as "lang == 'en' and text | length > 10"; fields are its variables.
class RowFilter {
 public:
  explicit RowFilter(const std::string& expression);  // ConfigError when it cannot be parsed
  bool operator()(const Row& row) const;              // ConfigError when it fails on the row

 private:
  std::string expression_;
  jinja::Template template_;
};

}  // namespace easydel::data
