#include "easydel/core/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "easydel/core/error.h"
#include "easydel/core/files/descriptor.h"

namespace easydel {
namespace fs = std::filesystem;

void fail_errno(const char* what, const fs::path& path, int code) {
  fail<IoError>("[", path.string(), "] ", what, ": ", errno_text(code), ".");
}

namespace {

const char* kind_of(const struct stat& info) {
  return S_ISFIFO(info.st_mode)   ? "a named pipe"
         : S_ISSOCK(info.st_mode) ? "a socket"
         : S_ISCHR(info.st_mode)  ? "a device"
         : S_ISBLK(info.st_mode)  ? "a device"
                                  : "something else";
}

}  // namespace

int open_for_reading(const fs::path& path, struct stat& info) {
  // Without O_NONBLOCK, opening a pipe without a writer would block; regular files ignore the flag.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 && errno == ENXIO) fail<IoError>("[", path.string(), "] must be a regular file; it is a socket.");
  if (fd < 0) fail_errno("cannot be opened", path, errno);
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    if (S_ISDIR(info.st_mode)) fail_errno("cannot be read", path, EISDIR);
    fail<IoError>("[", path.string(), "] must be a regular file; it is ", kind_of(info), ".");
  }
  return fd;
}

std::string read_file(const fs::path& path) {
  struct stat info{};
  const Descriptor fd(open_for_reading(path, info));
  constexpr int64_t kMaxBytes = int64_t{1} << 30;  // a sparse file can claim any size
  require<IoError>(info.st_size <= kMaxBytes, "[", path.string(), "] has ", info.st_size, " bytes; the limit is ",
                   kMaxBytes, ".");
  std::string content(static_cast<std::size_t>(info.st_size) + 1, '\0');  // one extra byte to detect the end
  std::size_t done = 0;
  while (true) {
    if (done == content.size()) content.resize(done + 4096);  // the file may have grown, or be in /proc
    const ssize_t got = ::read(fd, content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("cannot be read", path, errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  content.resize(done);
  return content;
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  static std::atomic<int> counter{0};
  temporary_ = path_;
  temporary_ += concat(".tmp-", ::getpid(), "-", counter++);
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_errno("cannot be written", path_, errno);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t put = ::write(fd_, next, std::min<std::size_t>(size, 1 << 30));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const int code = errno;
      fail<IoError>("[", path_.string(), "] cannot be written after ", written_, " bytes: ", errno_text(code),
                    ". The previous content is untouched.");
    }
    next += put;
    size -= static_cast<std::size_t>(put);
    written_ += put;
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail_errno("cannot be synced", path_, errno);
  ::close(fd_);
  fd_ = -1;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int code = errno;
    ::unlink(temporary_.c_str());
    fail_errno("cannot be renamed into place", path_, code);
  }
  sync_directory(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content.data(), content.size());
  file.commit();
}

void sync_directory(const fs::path& directory) {
  const Descriptor fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd < 0) fail_errno("cannot be opened", directory, errno);
  if (::fsync(fd) != 0 && errno != EINVAL) fail_errno("cannot be synced", directory, errno);
}

void make_directory(const fs::path& directory) {
  std::error_code code;
  if (fs::is_directory(directory, code)) return;
  const fs::path parent = directory.has_parent_path() ? directory.parent_path() : fs::path(".");
  if (parent != directory) make_directory(parent);
  if (fs::create_directory(directory, code)) sync_directory(parent);
  if (code) fail_errno("cannot be created", directory, code.value());
}

std::vector<std::string> list_directory(const fs::path& directory) {
  std::error_code code;
  std::vector<std::string> names;
  for (fs::directory_iterator at(directory, code), end; !code && at != end; at.increment(code)) {
    names.push_back(at->path().filename().string());
  }
  if (code) fail_errno("cannot be listed", directory, code.value());
  std::sort(names.begin(), names.end());
  return names;
}

void remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail_errno("cannot be removed", path, errno);
}

}  // namespace easydel
