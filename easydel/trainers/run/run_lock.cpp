#include "easydel/trainers/run/run_lock.h"

#include <unistd.h>

#include <iterator>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/json/json.h"
#include "easydel/core/runtime.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

// "process 4711 on node3", as far as the file says it.
std::string holder_in(const fs::path& path) {
  try {
    const Json holder = Json::parse(read_file(path));
    return concat("process ", holder.at("pid").as_int(), " on ", holder.at("host").as_string());
  } catch (const Error&) {  // it is being written, or the file system does not show it yet
    return "another process";
  }
}

}  // namespace

RunLock::RunLock(const fs::path& directory) : directory_(directory) {
  std::error_code ignored;
  is_new_ = !fs::exists(directory, ignored);
  make_directory(directory);
  const fs::path path = directory / "run.lock";
  lock_ = FileLock::try_take(path);
  require<IoError>(lock_ != nullptr, "[trainer] ", directory.string(), " is being written to by a run of ",
                   lock_ ? "" : holder_in(path),
                   ". Wait for it or stop it, or give this run another directory (--output, save_directory).");
  say(Json::object({{"pid", static_cast<int64_t>(::getpid())}, {"host", host_name()}}).dump() + "\n");
}

RunLock::~RunLock() {
  say("");
  std::error_code ignored;
  if (!is_new_ || std::distance(fs::directory_iterator(directory_, ignored), fs::directory_iterator()) != 1) return;
  fs::remove(directory_ / "run.lock", ignored);
  fs::remove(directory_, ignored);
}

// The lock holds without it: on a full disk nothing can be said.
void RunLock::say(const std::string& holder) const {
  try {
    lock_->write(holder);
  } catch (const IoError&) {
  }
}

}  // namespace easydel
