// A template that cannot be parsed or rendered, with the line at fault.
#pragma once

#include <string>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"

namespace easydel::jinja {

class TemplateError : public Error {
 public:
  TemplateError(int line, const std::string& reason)
      : Error(concat("[Template] line ", line, ": ", printable(reason, kShown))), line_(line), reason_(reason) {}

  int line() const { return line_; }
  const std::string& reason() const { return reason_; }  // not truncated; for example the text of raise_exception

 private:
  static constexpr std::size_t kShown = 500;  // bytes of the reason in the message
  int line_;
  std::string reason_;
};

}  // namespace easydel::jinja
