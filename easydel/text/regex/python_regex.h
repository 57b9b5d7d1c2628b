// Regular expressions as Python's re module reads them, matched by PCRE2.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace easydel {

class PythonRegex {
 public:
  struct Flags {
    bool ignore_case = false;
    bool multiline = false;
  };
  struct Match {
    std::size_t begin = 0, end = 0;        // bytes
    std::vector<std::string_view> groups;  // of the text; one that took no part is empty, as in findall
  };

  // FormatError that starts with `where` when the pattern does not compile; NotSupportedError without PCRE2.
  PythonRegex(std::string_view pattern, const std::string& where) : PythonRegex(pattern, where, Flags()) {}
  PythonRegex(std::string_view pattern, const std::string& where, Flags flags);
  ~PythonRegex();
  PythonRegex(PythonRegex&&) noexcept;
  PythonRegex& operator=(PythonRegex&&) noexcept;

  // Those of re.finditer, empty ones included. `text` must outlive them. FormatError when it takes too many steps.
  std::vector<Match> find_all(std::string_view text) const;
  bool is_found(std::string_view text) const { return !find_all(text).empty(); }  // re.search
  std::string removed_from(std::string_view text) const;                          // re.sub(pattern, "", text)
  std::vector<std::string_view> split(std::string_view text) const;               // re.split, without its groups

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace easydel
