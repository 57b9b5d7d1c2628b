#include "easydel/io/hub/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "easydel/core/log.h"
#include "easydel/io/parallel.h"

namespace easydel {

namespace {

constexpr std::chrono::milliseconds kPoll{50};
constexpr std::chrono::seconds kSayEvery{10};

}  // namespace

// False when another process or thread holds it.
bool FileLock::take(const std::filesystem::path& path) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0664);
  require<IoError>(fd_ >= 0, "[lock] cannot open ", path.string(), ": ", errno_text(errno), ".");
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
    (void)::fchmod(fd_, 0664);  // whatever the umask is: other users of a shared cache take the same lock
    struct stat info{};
    if (::fstat(fd_, &info) == 0 && info.st_nlink > 0)
      return true;  // else it was removed meanwhile, and the lock is useless
  } else if (errno != EWOULDBLOCK && errno != EINTR) {
    const int code = errno;
    ::close(std::exchange(fd_, -1));
    if (code == ENOLCK || code == ENOSYS || code == EOPNOTSUPP) return true;  // a file system without locks
    fail<IoError>("[lock] cannot lock ", path.string(), ": ", errno_text(code), ".");
  }
  ::close(std::exchange(fd_, -1));
  return false;
}

FileLock::FileLock(const std::filesystem::path& path, std::chrono::seconds timeout, const std::stop_token& stop) {
  const auto start = std::chrono::steady_clock::now();
  auto said = start;
  while (!take(path)) {
    if (stop.stop_requested()) throw Cancelled();
    const auto now = std::chrono::steady_clock::now();
    require<IoError>(now - start < timeout, "[lock] another process has held ", path.string(), " for more than ",
                     timeout.count(), " s. Stop it, or wait for it.");
    if (now - said >= kSayEvery) {
      log::info("[lock] waiting for another process that holds ", path.string(), ".");
      said = now;
    }
    std::this_thread::sleep_for(kPoll);
  }
}

std::unique_ptr<FileLock> FileLock::try_take(const std::filesystem::path& path) {
  std::unique_ptr<FileLock> lock(new FileLock);
  return lock->take(path) ? std::move(lock) : nullptr;
}

void FileLock::write(std::string_view content) {
  if (fd_ < 0) return;
  const bool written = ::ftruncate(fd_, 0) == 0 &&
                       ::pwrite(fd_, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size());
  require<IoError>(written, "[lock] cannot write: ", errno_text(errno), ".");
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace easydel
