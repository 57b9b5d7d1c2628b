#include "easydel/core/files/replace_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

void sync_files(const fs::path& directory) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file() && !entry.is_directory()) continue;
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    const bool synced = fd >= 0 && ::fsync(fd) == 0;
    const int error = errno;
    if (fd >= 0) ::close(fd);
    require<IoError>(synced, "[", entry.path().string(), "] cannot be synced: ", std::strerror(error), ".");
  }
  sync_directory(directory);
}

void remove_tree(const fs::path& directory) {
  std::error_code error;
  fs::remove_all(directory, error);
  require<IoError>(!error, "[", directory.string(), "] cannot be removed: ", error.message(), ".");
}

// Entries of `from` that belong to the user.
void move_strangers(const fs::path& from, const fs::path& into,
                    const std::function<bool(const std::string& name)>& is_ours) {
  for (const std::string& name : list_directory(from)) {
    if (is_ours(name) || fs::exists(into / name)) continue;
    std::error_code error;
    fs::rename(from / name, into / name, error);
    require<IoError>(!error, "[", (from / name).string(), "] cannot be moved to ", into.string(), ": ", error.message(),
                     ".");
  }
}

}  // namespace

fs::path unfinished_name(const fs::path& target) {
  const fs::path clean = target.filename().empty() ? target.parent_path() : target;
  return clean.parent_path() / ("." + clean.filename().string() + ".unfinished");
}

void replace_directory(const fs::path& target, const std::function<void(const fs::path& fresh)>& write,
                       const std::function<bool(const std::string& name)>& is_ours) {
  const fs::path place = fs::absolute(target.filename().empty() ? target.parent_path() : target);
  const fs::path fresh = unfinished_name(place);
  if (fs::exists(fresh)) {  // a killed call may not have moved the user's entries yet
    if (fs::exists(place)) move_strangers(fresh, place, is_ours);
    remove_tree(fresh);
  }
  make_directory(fresh);
  try {
    write(fresh);
    sync_files(fresh);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    throw;
  }
  const bool exists = fs::exists(place);
  const int failed = exists ? ::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE)
                            : ::rename(fresh.c_str(), place.c_str());
  require<IoError>(failed == 0, "[", place.string(), "] cannot be replaced: ", std::strerror(errno), ".");
  sync_directory(place.parent_path());
  if (!exists) return;
  move_strangers(fresh, place, is_ours);
  remove_tree(fresh);
}

}  // namespace easydel
