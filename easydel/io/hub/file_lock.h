// A lock between processes, and between threads, on a dedicated file: flock, as Python's filelock uses it.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string_view>

namespace easydel {

// Held for the lifetime of the object. The file is not removed; the kernel frees the lock of a process that dies.
class FileLock {
 public:
  // Creates the file. IoError when it cannot, or when another holder keeps the lock for longer than `timeout`;
  // Cancelled when stopped.
  FileLock(const std::filesystem::path& path, std::chrono::seconds timeout, const std::stop_token& stop = {});
  // Does not wait: null when another holder has it.
  static std::unique_ptr<FileLock> try_take(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  void write(std::string_view content);  // replaces the file's content, for others to read. IoError

 private:
  FileLock() = default;
  bool take(const std::filesystem::path& path);

  int fd_ = -1;
};

}  // namespace easydel
