// For LD_PRELOAD: a program that starts once, up to main(), and then runs main() in a fork for every request. Loading
// libtorch takes ten times as long as what most commands of the tests do. warm_start.py is the other side.
//
// The socket WARM_START_SOCKET carries requests, one message each: counts of arguments and variables, the folder, the
// arguments and the environment, each ended by a zero byte, and four descriptors: the standard ones, and a socket for
// the answer: the process id, then its status as waitpid() gives it. Without requests to come the program ends.
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

extern char** environ;

namespace {

using Main = int(int, char**, char**);

constexpr std::size_t largest_message = 200'000, descriptors = 4;
Main* program_main = nullptr;
std::vector<char> message(largest_message);  // the arguments of a child point into it
std::vector<char*> words;

// False where no request will come any more.
bool receive(int from, std::array<int, descriptors>& files) {
  iovec data{message.data(), message.size() - 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * descriptors)];
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t size = ::recvmsg(from, &header, 0);
  const cmsghdr* sent = size > 0 ? CMSG_FIRSTHDR(&header) : nullptr;
  if (!sent || sent->cmsg_len != CMSG_LEN(sizeof(int) * descriptors) || (header.msg_flags & MSG_TRUNC)) return false;
  std::memcpy(files.data(), CMSG_DATA(sent), sizeof(int) * descriptors);
  message[static_cast<std::size_t>(size)] = '\0';
  words.clear();
  for (char* at = message.data(); at < message.data() + size; at += std::strlen(at) + 1) words.push_back(at);
  return true;
}

template <class T>
void answer(int to, T value) {
  if (::write(to, &value, sizeof value) != sizeof value) ::_exit(125);
}

// In the child: what exec() would have set, then main(). Its end leaves out the destructors of libtorch's operators,
// which take as long as loading them did.
[[noreturn]] void run_request(const std::array<int, descriptors>& files) {
  const auto arguments = std::strtoul(words[0], nullptr, 10), variables = std::strtoul(words[1], nullptr, 10);
  for (int i = 0; i < 3; ++i) ::dup2(files[static_cast<std::size_t>(i)], i);
  for (const int file : files) {
    if (file > 2) ::close(file);
  }
  if (::chdir(words[2]) != 0) ::_exit(126);
  static std::vector<char*> argv(words.begin() + 3, words.begin() + 3 + static_cast<std::ptrdiff_t>(arguments));
  ::clearenv();
  for (std::size_t i = 0; i < variables; ++i) ::putenv(words[3 + arguments + i]);
  argv.push_back(nullptr);
  const int status = program_main(static_cast<int>(arguments), argv.data(), environ);
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(status);
}

int serve_requests(int argc, char** argv, char** environment) {
  const char* socket_text = std::getenv("WARM_START_SOCKET");
  if (!socket_text) return program_main(argc, argv, environment);
  const int socket = std::atoi(socket_text);
  std::signal(SIGCHLD, SIG_IGN);  // the keepers are not waited for
  for (std::array<int, descriptors> files; receive(socket, files);) {
    // The keeper waits for the child and answers, so that requests can overlap.
    if (::fork() == 0) {
      ::close(socket);
      std::signal(SIGCHLD, SIG_DFL);
      const pid_t child = ::fork();
      if (child == 0) run_request(files);
      answer<int>(files[3], child);
      for (int i = 0; i < 3; ++i) ::close(files[static_cast<std::size_t>(i)]);
      int status = 0;
      ::waitpid(child, &status, 0);
      answer(files[3], status);
      ::_exit(0);
    }
    for (const int file : files) ::close(file);
  }
  ::_exit(0);
}

}  // namespace

extern "C" int __libc_start_main(Main* main, int argc, char** argv, void (*init)(), void (*fini)(), void (*rtld_fini)(),
                                 void* stack_end) {
  using Start = int(Main*, int, char**, void (*)(), void (*)(), void (*)(), void*);
  program_main = main;
  const auto start = reinterpret_cast<Start*>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(serve_requests, argc, argv, init, fini, rtld_fini, stack_end);
}
