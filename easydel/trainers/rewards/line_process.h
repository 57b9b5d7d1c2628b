// A program that is started once and answers lines: one in, one out.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace easydel {

class LineProcess {
 public:
  // `where` begins every error: "[rewards]". IoError when it cannot be started.
  LineProcess(const std::string& where, const std::vector<std::string>& command);
  ~LineProcess() { stop(); }
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;

  // Sends the lines and calls `take` with the answer to each, in order; each has its own time, in seconds. An IoError
  // that names the program ends it: when it takes too long, ends, or writes more; and when `take` throws one.
  void ask(const std::vector<std::string>& lines, double timeout, const std::function<void(const std::string&)>& take);
  // Ends the program with an IoError.
  [[noreturn]] void give_up(const std::string& why);
  const std::string& name() const { return name_; }  // [rewards] "python3 judge.py"

 private:
  std::size_t send(const std::string& text, std::size_t sent);
  void require_silence();
  std::string how_it_ended();
  void stop();

  std::string name_, rest_;
  std::size_t answers_ = 0;  // of all requests so far
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
};

}  // namespace easydel
