#include "easydel/cli/terminal/line_reader.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "easydel/core/build_info.h"

#if EASYDEL_HAS_EDIT
#include <editline/readline.h>
#endif

namespace easydel::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

// Ctrl-C sets a flag while this lives, and ends a wait for input.
class InterruptFlag {
 public:
  InterruptFlag() {
    interrupted = 0;
    struct sigaction action{};
    action.sa_handler = [](int) { interrupted = 1; };
    ::sigaction(SIGINT, &action, &before_);
  }
  ~InterruptFlag() { ::sigaction(SIGINT, &before_, nullptr); }
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;

 private:
  struct sigaction before_{};
};

enum class Wait { Ready, Interrupted, HungUp };

Wait wait_for_input() {
  pollfd in{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  while (!interrupted) {
    // A closed terminal is always ready, and libedit would read nothing from it forever.
    if (::poll(&in, 1, -1) > 0) return (in.revents & (POLLHUP | POLLERR | POLLNVAL)) ? Wait::HungUp : Wait::Ready;
    if (errno != EINTR) return Wait::Ready;  // reading will report the error
  }
  return Wait::Interrupted;
}

#if EASYDEL_HAS_EDIT
std::optional<TypedLine> finished;  // the callback has no user argument

void take_line(char* typed) {
  finished = typed ? TypedLine{TypedLine::Kind::Text, typed} : TypedLine{TypedLine::Kind::End, ""};
  if (typed && *typed) ::add_history(typed);
  std::free(typed);
  ::rl_callback_handler_remove();
}

TypedLine edit_line(const std::string& prompt) {
  std::cout.flush();
  finished.reset();
  ::rl_callback_handler_install(prompt.c_str(), take_line);
  bool typed = false;  // until then the buffer holds the previous line
  while (!finished) {
    const Wait wait = wait_for_input();
    if (wait == Wait::Ready) {
      typed = true;
      ::rl_callback_read_char();
      continue;
    }
    finished = wait == Wait::HungUp
                   ? TypedLine{TypedLine::Kind::End, ""}
                   : TypedLine{TypedLine::Kind::Interrupted, typed && rl_line_buffer ? rl_line_buffer : ""};
    ::rl_callback_handler_remove();
  }
  return *finished;
}
#endif

}  // namespace

LineReader::LineReader() : terminal_(::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO)) {}

TypedLine LineReader::next(const std::string& prompt) {
  std::optional<InterruptFlag> flag;
  if (terminal_) flag.emplace();
#if EASYDEL_HAS_EDIT
  if (terminal_) return edit_line(prompt);
#endif
  if (terminal_) std::cout << prompt << std::flush;
  if (terminal_ && wait_for_input() == Wait::Interrupted) return {TypedLine::Kind::Interrupted, ""};
  TypedLine line{TypedLine::Kind::Text, ""};
  if (!std::getline(std::cin, line.text)) line.kind = TypedLine::Kind::End;
  return line;
}

}  // namespace easydel::cli
