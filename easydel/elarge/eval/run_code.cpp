#include "easydel/elarge/eval/run_code.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/parallel.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

// Sets the limits, runs program.py with names of its own, and writes one byte only if it ends without an exception: an
// exit status of 0 would also come from sys.exit().
constexpr const char* kRunner =
    "import os, resource, sys\n"
    "done, seconds = int(sys.argv[1]), int(sys.argv[2])\n"
    "for kind, limit in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, 4 << 30),\n"
    "                    (resource.RLIMIT_FSIZE, 16 << 20), (resource.RLIMIT_NOFILE, 64), (resource.RLIMIT_CORE, 0)):\n"
    "    hard = resource.getrlimit(kind)[1]\n"
    "    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)\n"
    "    resource.setrlimit(kind, (limit, limit))\n"
    "code = open('program.py').read()\n"
    "try:\n"
    "    exec(code, {})\n"
    "except BaseException:\n"
    "    os._exit(1)\n"
    "os.write(done, b'1')\n"
    "os._exit(0)\n";

class CodePipe {
 public:
  CodePipe() {
    require<IoError>(pipe2(ends_, O_CLOEXEC) == 0, "[eval] a pipe cannot be created: ", std::strerror(errno));
  }
  ~CodePipe() {
    close_writer();
    close(ends_[0]);
  }
  CodePipe(const CodePipe&) = delete;
  CodePipe& operator=(const CodePipe&) = delete;
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void close_writer() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  int ends_[2] = {-1, -1};
};

class CodeDirectory {
 public:
  CodeDirectory() {
    std::string name = (fs::temp_directory_path() / "easydel-code-XXXXXX").string();
    require<IoError>(mkdtemp(name.data()) != nullptr, "[eval] ", name, " cannot be created: ", std::strerror(errno),
                     ".");
    path_ = name;
  }
  ~CodeDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  CodeDirectory(const CodeDirectory&) = delete;
  CodeDirectory& operator=(const CodeDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

pid_t start_program(const fs::path& python, const fs::path& directory, int done, std::chrono::milliseconds timeout) {
  constexpr int kDone = 3;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, done, kDone);
  posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  const int64_t seconds = (timeout.count() + 999) / 1000 + 1;
  std::vector<std::string> words = {python.string(),        "-I", "-c", kRunner, std::to_string(kDone),
                                    std::to_string(seconds)};
  const std::string path = concat("PATH=", std::getenv("PATH") ? std::getenv("PATH") : "/usr/bin:/bin");
  std::vector<std::string> variables = {path, "OMP_NUM_THREADS=1"};
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  };
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, python.c_str(), &actions, &attributes, pointers(words).data(), pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  require<IoError>(error == 0, "[eval] ", python.string(), " cannot be started: ", std::strerror(error), ".");
  return pid;
}

bool run_program(const fs::path& python, const std::string& program, std::chrono::milliseconds timeout) {
  const CodeDirectory directory;
  write_file_atomically(directory.path() / "program.py", program);
  CodePipe pipe;
  const pid_t pid = start_program(python, directory.path(), pipe.writer(), timeout);
  pipe.close_writer();
  // Starting Python is not the program's time.
  const auto deadline = std::chrono::steady_clock::now() + timeout + std::chrono::seconds(1);
  bool has_passed = false;
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) break;
    pollfd wait{.fd = pipe.reader(), .events = POLLIN, .revents = 0};
    const int ready = poll(&wait, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    char byte = 0;
    has_passed = read(pipe.reader(), &byte, 1) == 1;  // nothing to read: it has ended otherwise
    break;
  }
  kill(-pid, SIGKILL);  // with what it started
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
  return has_passed;
}

}  // namespace

std::optional<fs::path> find_python() {
  const char* given = std::getenv("PATH");
  std::string rest = given ? given : "/usr/bin:/bin";
  while (!rest.empty()) {
    const std::size_t end = rest.find(':');
    const fs::path candidate = fs::path(rest.substr(0, end)) / "python3";
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  return std::nullopt;
}

std::vector<bool> run_programs(const fs::path& python, const std::vector<std::string>& programs,
                               std::chrono::milliseconds timeout) {
  constexpr int kAtOnce = 4;
  std::vector<char> passed(programs.size(), 0);
  for_each_in_parallel(programs.size(), kAtOnce, [&](const std::stop_token&) {
    return [&](std::size_t i) { passed[i] = run_program(python, programs[i], timeout) ? 1 : 0; };
  });
  return {passed.begin(), passed.end()};
}

double pass_at_k(int64_t count, int64_t passed, int64_t k) {
  if (count - passed < k) return 1.0;
  double none = 1.0;
  for (int64_t i = count - passed + 1; i <= count; ++i) none *= 1.0 - static_cast<double>(k) / static_cast<double>(i);
  return 1.0 - none;
}

}  // namespace easydel
