// A child process of a test: its input and output are pipes, and it does not outlive the test.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace easydel {

class ChildProcess {
 public:
  explicit ChildProcess(const std::vector<std::string>& arguments);
  ~ChildProcess();  // closes its input, waits a little, then kills it
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void write_line(const std::string& line);
  std::string read_line(std::chrono::seconds timeout = std::chrono::seconds(30));  // throws when none comes
  std::string read_all(std::chrono::seconds timeout = std::chrono::seconds(60));   // until the output ends
  int wait(std::chrono::seconds timeout = std::chrono::seconds(60));               // the exit code, or 128 + the signal

 private:
  bool read_more(std::chrono::steady_clock::time_point deadline);
  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::string buffer_;
};

// A copy of this process that runs `body` and exits with 0, or with 1 when it throws.
class ForkedProcess {
 public:
  explicit ForkedProcess(const std::function<void()>& body);
  ~ForkedProcess();
  ForkedProcess(const ForkedProcess&) = delete;
  ForkedProcess& operator=(const ForkedProcess&) = delete;

  void kill();  // SIGKILL
  int wait(std::chrono::seconds timeout = std::chrono::seconds(60));

 private:
  pid_t pid_ = -1;
};

// The interpreter for reference scripts, and a script's path.
std::string python();
std::string reference_script(const std::string& name);

// Polls until the condition holds; false when it does not within the timeout.
bool wait_until(const std::function<bool()>& condition, std::chrono::seconds timeout = std::chrono::seconds(30));

}  // namespace easydel
