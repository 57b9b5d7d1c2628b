// An output directory belongs to one run at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "easydel/io/hub/file_lock.h"

namespace easydel {

// Held while it lives; the kernel frees that of a process that dies. run.lock in the directory says who holds it.
class RunLock {
 public:
  // Makes the directory. IoError at once when another run has it, with that run's process and host.
  explicit RunLock(const std::filesystem::path& directory);
  ~RunLock();  // removes the directory if it was made here and nothing was put into it
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  void say(const std::string& holder) const;

  std::filesystem::path directory_;
  bool is_new_ = false;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace easydel
