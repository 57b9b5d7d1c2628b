#include "tests/support/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

namespace easydel {

namespace {

using Clock = std::chrono::steady_clock;

int wait_for(pid_t pid, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (true) {
    int status = 0;
    const pid_t got = ::waitpid(pid, &status, WNOHANG);
    if (got == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (got < 0 || Clock::now() > deadline) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

int wait_or_kill(pid_t& pid, std::chrono::milliseconds timeout) {
  if (pid < 0) return -1;
  int code = wait_for(pid, timeout);
  if (code < 0) {
    ::kill(pid, SIGKILL);
    wait_for(pid, std::chrono::seconds(10));
  }
  pid = -1;
  return code;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& arguments) {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  std::vector<char*> argv;
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  input_ = in[1];
  output_ = out[0];
}

ChildProcess::~ChildProcess() {
  ::close(input_);
  wait_or_kill(pid_, std::chrono::seconds(2));
  ::close(output_);
}

void ChildProcess::write_line(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(input_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("the child takes no input");
  }
}

bool ChildProcess::read_more(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd waiting{output_, POLLIN, 0};
  if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(left)) <= 0) throw std::runtime_error("the child is silent");
  char piece[65536];
  const ssize_t got = ::read(output_, piece, sizeof piece);
  if (got > 0) buffer_.append(piece, static_cast<std::size_t>(got));
  return got > 0;
}

std::string ChildProcess::read_line(std::chrono::seconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (buffer_.find('\n') == buffer_.npos) {
    if (!read_more(deadline)) throw std::runtime_error("the child has ended");
  }
  const auto end = buffer_.find('\n');
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

std::string ChildProcess::read_all(std::chrono::seconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (read_more(deadline)) {
  }
  return std::exchange(buffer_, "");
}

int ChildProcess::wait(std::chrono::seconds timeout) { return wait_or_kill(pid_, timeout); }

ForkedProcess::ForkedProcess(const std::function<void()>& body) {
  std::fflush(nullptr);
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
    ::_exit(1);
  }
  ::_exit(0);
}

ForkedProcess::~ForkedProcess() { wait_or_kill(pid_, std::chrono::seconds(0)); }
void ForkedProcess::kill() { ::kill(pid_, SIGKILL); }
int ForkedProcess::wait(std::chrono::seconds timeout) { return wait_or_kill(pid_, timeout); }

std::string python() {
  const char* path = std::getenv("EASYDEL_PYTHON");
  return path != nullptr ? path : "python3";
}

std::string reference_script(const std::string& name) {
  const char* source = std::getenv("EASYDEL_SOURCE_DIR");
  return std::string(source != nullptr ? source : ".") + "/tests/reference/" + name;
}

bool wait_until(const std::function<bool()>& condition, std::chrono::seconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace easydel
