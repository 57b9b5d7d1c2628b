#include "easydel/cli/terminal/demo_output.h"

#include <string>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/json/json.h"

namespace easydel::cli {
namespace fs = std::filesystem;
namespace {

constexpr const char* kMarker = "demo.json";

// Whether a demo wrote it; anything else in the directory belongs to the user.
bool is_of_a_demo(const std::string& name) {
  for (const char* own : {"tokenizer", "tensorboard", "skipped", "metrics.jsonl", "report.html", "run.json", kMarker}) {
    if (name == own) return true;
  }
  return name.starts_with("run-") || (name.starts_with(".run-") && name.ends_with(".unfinished"));
}

}  // namespace

std::shared_ptr<RunLock> prepare_demo_output(const fs::path& directory) {
  require<UsageError>(!fs::exists(directory) || fs::is_directory(directory), "--output ", directory.string(),
                      " is a file; a directory is needed.");
  const bool is_empty = !fs::exists(directory) || fs::is_empty(directory);
  require<UsageError>(is_empty || fs::exists(directory / kMarker), "--output ", directory.string(),
                      " is not empty and is not the directory of a demo (it has no ", kMarker,
                      "). Choose another one, or remove it first.");
  auto lock = std::make_shared<RunLock>(directory);
  for (const std::string& name : list_directory(directory)) {
    if (is_of_a_demo(name)) fs::remove_all(directory / name);
  }
  write_file_atomically(directory / kMarker, Json::object({{"made_by", "easydel demo"}}).dump() + "\n");
  return lock;
}

}  // namespace easydel::cli
