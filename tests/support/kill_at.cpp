// For LD_PRELOAD: kills the process at the KILL_AT-th call that changes a file, or KILL_AFTER_US microseconds later.
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace {

long number_of(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::atol(text) : 0;
}

void count_call() {
  static const long wanted = number_of("KILL_AT"), delay = number_of("KILL_AFTER_US");
  static std::atomic<long> calls = 0;
  if (++calls != wanted) return;
  if (delay == 0) ::kill(::getpid(), SIGKILL);
  std::thread([] {
    ::usleep(static_cast<useconds_t>(delay));
    ::kill(::getpid(), SIGKILL);
  }).detach();
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

#define EASYDEL_COUNTED(result, name, parameters, arguments) \
  extern "C" result name parameters {                        \
    static const auto real = next<result parameters>(#name); \
    count_call();                                            \
    return real arguments;                                   \
  }

EASYDEL_COUNTED(ssize_t, write, (int fd, const void* data, size_t size), (fd, data, size))
EASYDEL_COUNTED(ssize_t, pwrite, (int fd, const void* data, size_t size, off_t at), (fd, data, size, at))
EASYDEL_COUNTED(int, fsync, (int fd), (fd))
EASYDEL_COUNTED(int, rename, (const char* from, const char* to), (from, to))
EASYDEL_COUNTED(int, renameat2, (int a, const char* from, int b, const char* to, unsigned flags),
                (a, from, b, to, flags))
EASYDEL_COUNTED(int, unlink, (const char* path), (path))
EASYDEL_COUNTED(int, unlinkat, (int fd, const char* path, int flags), (fd, path, flags))
EASYDEL_COUNTED(int, mkdir, (const char* path, mode_t mode), (path, mode))
