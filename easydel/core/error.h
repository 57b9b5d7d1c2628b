// The error hierarchy. A message reads: [where] rule; got value. What to try.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace easydel {

// Base class of every error of this library. Internal bugs are asserts, not errors.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ConfigError : public Error {  // an invalid user-supplied value: a config key, an option, an argument
 public:
  using Error::Error;
};

class UsageError : public Error {  // an invalid command line; the process exits with 2
 public:
  using Error::Error;
};

class ShapeError : public Error {  // tensors whose shapes do not match each other or the config
 public:
  using Error::Error;
};

class IoError : public Error {  // the system call failed: no such file, no permission, no space
 public:
  using Error::Error;
};

class FormatError : public Error {  // a file or a message with invalid content
 public:
  using Error::Error;
};

class NotSupportedError : public Error {  // valid, but not supported by this build or version
 public:
  using Error::Error;
};

class DistributedError : public Error {  // another rank died, hangs, or called a different operation
 public:
  using Error::Error;
};

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class E, class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw E(concat(parts...));
}

// Throws E with the parts joined, unless the condition holds. The message is only built on failure.
template <class E, class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    fail<E>(parts...);
}

// The text of an errno value: "No space left on device".
std::string errno_text(int code);

// The known name nearest to `given` by edit distance, or "" when none is close enough to be a typo.
template <class Names>
std::string nearest_name(const std::string& given, const Names& known);

std::size_t edit_distance(const std::string& a, const std::string& b);

template <class Names>
std::string nearest_name(const std::string& given, const Names& known) {
  std::string best;
  std::size_t best_distance = given.size() / 3 + 1;
  for (const auto& name : known) {
    const std::size_t distance = edit_distance(given, std::string(name));
    if (distance <= best_distance && !(distance == best_distance && !best.empty())) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace easydel
