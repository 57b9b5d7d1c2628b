// A lock between processes, and between threads, on a file of its own: flock, as Python's filelock takes it.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string_view>

namespace easydel {

// Held while it lives. The file stays where it is; the kernel frees the lock of a process that dies.
class FileLock {
 public:
  // Makes the file. IoError when it cannot, or when another holder keeps the lock for longer than
  // `timeout`; Cancelled when stopped.
  FileLock(const std::filesystem::path& path, std::chrono::seconds timeout, const std::stop_token& stop = {});
  // Does not wait: null when another holder has it.
  static std::unique_ptr<FileLock> try_take(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  void write(std::string_view content);  // in place of what the file has, for others to read. IoError

 private:
  FileLock() = default;
  bool take(const std::filesystem::path& path);

  int fd_ = -1;
};

}  // namespace easydel
