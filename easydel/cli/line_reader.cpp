#include "easydel/cli/line_reader.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "easydel/core/build_info.h"

#if EASYDEL_HAS_EDIT
#include <editline/readline.h>
#endif

namespace easydel::cli {

LineReader::LineReader() : terminal_(::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO)) {}

std::optional<std::string> LineReader::next(const std::string& prompt) {
#if EASYDEL_HAS_EDIT
  if (terminal_) {
    std::cout.flush();
    char* typed = ::readline(prompt.c_str());
    if (!typed) return std::nullopt;
    std::string line(typed);
    std::free(typed);
    if (!line.empty()) ::add_history(line.c_str());
    return line;
  }
#endif
  if (terminal_) std::cout << prompt << std::flush;
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

}  // namespace easydel::cli
