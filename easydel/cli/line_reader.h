// Lines that a person types: with editing and history at a terminal, plain from a pipe.
#pragma once

#include <optional>
#include <string>

namespace easydel::cli {

class LineReader {
 public:
  LineReader();
  bool is_terminal() const { return terminal_; }
  // Absent at the end of the input. The prompt is only shown at a terminal.
  std::optional<std::string> next(const std::string& prompt);

 private:
  bool terminal_;
};

}  // namespace easydel::cli
