// Temporarily redirects a template's output.
#pragma once

#include <string>

namespace easydel::jinja {

// Redirects output to another text during its lifetime.
class Redirected {
 public:
  Redirected(std::string*& sink, std::string& to) : sink_(sink), before_(sink) { sink = &to; }
  ~Redirected() { sink_ = before_; }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  std::string*& sink_;
  std::string* before_;
};

}  // namespace easydel::jinja
