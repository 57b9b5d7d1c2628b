// File descriptors, internal to this folder.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace easydel {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return fd_; }

 private:
  int fd_;
};

// "[path] cannot be opened: No such file or directory."
[[noreturn]] void fail_errno(const char* what, const std::filesystem::path& path, int code);

// Opens a regular file; IoError otherwise.
int open_for_reading(const std::filesystem::path& path, struct stat& info);

}  // namespace easydel
