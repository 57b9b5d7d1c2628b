// A template that cannot be parsed or rendered, with the line at fault.
#pragma once

#include <string>

#include "easydel/core/error.h"

namespace easydel::jinja {

class TemplateError : public Error {
 public:
  TemplateError(int line, const std::string& reason)
      : Error(concat("[Template] line ", line, ": ", reason)), line_(line), reason_(reason) {}

  int line() const { return line_; }
  const std::string& reason() const { return reason_; }  // the text of raise_exception, for one

 private:
  int line_;
  std::string reason_;
};

}  // namespace easydel::jinja
