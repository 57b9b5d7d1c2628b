// Lines of user input: with editing and history at a terminal, plain from a pipe.
#pragma once

#include <string>

namespace easydel::cli {

struct TypedLine {
  enum class Kind { Text, Interrupted, End };  // Interrupted: Ctrl-C, with what had been typed
  Kind kind = Kind::End;
  std::string text;
};

class LineReader {
 public:
  LineReader();
  bool is_terminal() const { return terminal_; }
  // The prompt is only shown at a terminal, where Ctrl-C discards the line and does not end the program.
  TypedLine next(const std::string& prompt);

 private:
  bool terminal_;
};

}  // namespace easydel::cli
