// A table of texts for a terminal: each cell on one line, and what is too long cut off.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace easydel {

class TextTable {
 public:
  explicit TextTable(std::vector<std::pair<std::string, std::size_t>> columns);  // their names and widths
  void add(std::vector<std::string> cells);
  std::vector<std::string> lines() const;  // the names first

 private:
  std::vector<std::pair<std::string, std::size_t>> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// As JSON has it, without the quotes: no control characters.
std::string on_one_line(const std::string& text);

}  // namespace easydel
