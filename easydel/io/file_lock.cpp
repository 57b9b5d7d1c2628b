#include "easydel/io/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "easydel/core/log.h"
#include "easydel/io/parallel.h"

namespace easydel {

namespace {

constexpr std::chrono::milliseconds kPoll{50};
constexpr std::chrono::seconds kSayEvery{10};

}  // namespace

FileLock::FileLock(const std::filesystem::path& path, std::chrono::seconds timeout, const std::stop_token& stop) {
  const auto start = std::chrono::steady_clock::now();
  auto said = start;
  while (true) {
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0664);
    require<IoError>(fd_ >= 0, "[lock] cannot open ", path.string(), ": ", errno_text(errno), ".");
    if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
      (void)::fchmod(fd_, 0664);  // whatever the umask is: others of a shared cache take the same lock
      struct stat info{};
      if (::fstat(fd_, &info) == 0 && info.st_nlink > 0) return;  // else it was removed meanwhile and guards nothing
    } else if (errno != EWOULDBLOCK && errno != EINTR) {
      const int code = errno;
      ::close(fd_);
      if (code == ENOLCK || code == ENOSYS || code == EOPNOTSUPP) {  // the file system has no locks; all else holds
        fd_ = -1;
        return;
      }
      fail<IoError>("[lock] cannot lock ", path.string(), ": ", errno_text(code), ".");
    }
    ::close(fd_);
    if (stop.stop_requested()) throw Cancelled();
    const auto now = std::chrono::steady_clock::now();
    require<IoError>(now - start < timeout, "[lock] another process has held ", path.string(), " for more than ",
                     timeout.count(), " s. End it, or wait for it.");
    if (now - said >= kSayEvery) {
      log::info("[lock] waiting for another process that holds ", path.string(), ".");
      said = now;
    }
    std::this_thread::sleep_for(kPoll);
  }
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace easydel
