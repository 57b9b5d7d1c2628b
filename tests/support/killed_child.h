// A process that is killed at a chosen system call, to see what it leaves behind.
#pragma once

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace easydel {

enum class ChildEnd { Killed, Finished, NoTracing };

// Runs `work` in a child and kills it just before its nth system call, counted from 0. Work that throws counts as
// finished.
inline ChildEnd run_until_system_call(int n, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
    ::raise(SIGSTOP);
    try {
      work();
    } catch (...) {
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return ChildEnd::NoTracing;
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  bool entering = true;
  int signal = 0;
  for (int calls = 0;;) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, signal);
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status) || WIFSIGNALED(status)) return ChildEnd::Finished;
    const bool is_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
    signal = is_call ? 0 : WSTOPSIG(status);
    if (!is_call) continue;
    if (entering && calls++ == n) break;
    entering = !entering;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return ChildEnd::Killed;
}

}  // namespace easydel
