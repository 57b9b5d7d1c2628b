#include "easydel/trainers/rewards/line_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "easydel/core/error.h"

extern char** environ;

namespace easydel {
namespace {

using Clock = std::chrono::steady_clock;

std::string joined_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace

LineProcess::LineProcess(const std::string& where, const std::vector<std::string>& command)
    : name_(where + " \"" + joined_words(command) + "\"") {
  int in[2], out[2];
  require<IoError>(pipe2(in, O_CLOEXEC) == 0, name_, ": a pipe cannot be created: ", std::strerror(errno), ".");
  if (pipe2(out, O_CLOEXEC) != 0) {
    close(in[0]);
    close(in[1]);
    fail<IoError>(name_, ": a pipe cannot be created: ", std::strerror(errno), ".");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own: Ctrl-C reaches the run, which ends the program when it is done. No signal stays blocked.
  sigset_t none, standard;
  sigemptyset(&none);
  sigemptyset(&standard);
  sigaddset(&standard, SIGPIPE);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &standard);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int error = posix_spawnp(&pid_, words.front().c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
  fcntl(to_, F_SETFL, O_NONBLOCK);
  if (error != 0) {
    pid_ = -1;
    close(to_);
    close(from_);
    to_ = from_ = -1;
    fail<IoError>(name_, " cannot be started: ", std::strerror(error), ".");
  }
}

void LineProcess::ask(const std::vector<std::string>& lines, double timeout,
                      const std::function<void(const std::string&)>& take) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  std::size_t sent = 0, answers = 0;
  require_silence();
  auto deadline = Clock::now() + std::chrono::duration<double>(timeout);
  while (answers < lines.size()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) give_up(concat("did not answer within its timeout of ", timeout, " seconds"));
    pollfd waits[2] = {{.fd = from_, .events = POLLIN, .revents = 0},
                       {.fd = sent < text.size() ? to_ : -1, .events = POLLOUT, .revents = 0}};
    const int ready = poll(waits, 2, static_cast<int>(std::min<int64_t>(left, 1000)));
    if (ready < 0 && errno != EINTR) give_up(concat("cannot be waited for: ", std::strerror(errno)));
    if (ready <= 0) continue;
    if (waits[1].revents != 0) sent += send(text, sent);
    if (waits[0].revents == 0) continue;
    char bytes[4096];
    const ssize_t count = read(from_, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) give_up(concat("ended with ", how_it_ended(), " after ", answers_, " answers"));
    rest_.append(bytes, static_cast<std::size_t>(count));
    for (std::size_t line; answers < lines.size() && (line = rest_.find('\n')) != std::string::npos;
         ++answers, ++answers_) {
      try {
        take(rest_.substr(0, line));
      } catch (const IoError&) {
        stop();
        throw;
      }
      rest_.erase(0, line + 1);
      deadline = Clock::now() + std::chrono::duration<double>(timeout);
    }
  }
  if (!rest_.empty()) give_up(concat("wrote more than one line for a request: ", rest_.substr(0, 200)));
}

// Nothing may be there before a request is sent, or answers would be taken for those of others.
void LineProcess::require_silence() {
  pollfd wait{.fd = from_, .events = POLLIN, .revents = 0};
  if (poll(&wait, 1, 0) <= 0 || !(wait.revents & POLLIN)) return;
  char bytes[200];
  const ssize_t count = read(from_, bytes, sizeof bytes);
  if (count <= 0) return;  // it has ended, which the request finds out
  give_up("wrote more than one line for a request: " + std::string(bytes, static_cast<std::size_t>(count)));
}

std::size_t LineProcess::send(const std::string& text, std::size_t sent) {
  // The run ignores nothing: a program that has gone must not end it.
  sigset_t pipe_signal, before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const ssize_t count = write(to_, text.data() + sent, text.size() - sent);
  const int error = errno;
  if (count < 0 && error == EPIPE) {
    const timespec now{};
    sigtimedwait(&pipe_signal, nullptr, &now);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (count >= 0) return static_cast<std::size_t>(count);
  if (error != EAGAIN && error != EINTR) give_up(concat("stopped reading: ", std::strerror(error)));
  return 0;
}

void LineProcess::give_up(const std::string& why) {
  stop();
  fail<IoError>(name_, " ", why, ". Nothing was trained on these completions; the last checkpoint is complete.");
}

std::string LineProcess::how_it_ended() {
  int status = 0;
  for (int i = 0; i < 100; ++i) {
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFSIGNALED(status) ? concat("signal ", WTERMSIG(status)) : concat("status ", WEXITSTATUS(status));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return "its output closed";
}

void LineProcess::stop() {
  if (to_ >= 0) close(to_);
  if (from_ >= 0) close(from_);
  to_ = from_ = -1;
  if (pid_ < 0) return;
  kill(-pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  pid_ = -1;
}

}  // namespace easydel
