#include "easydel/cli/terminal/demo_output.h"

#include <string>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"

namespace easydel::cli {
namespace fs = std::filesystem;
namespace {

constexpr const char* kMarker = "demo.json";

// Whether a demo wrote it; anything else in the directory belongs to the user.
bool is_of_a_demo(const std::string& name) {
  for (const char* own : {"tokenizer", "sft", "grpo", "random", "sft-more", "tensorboard", "skipped", "metrics.jsonl",
                          "report.html", "run.json", kMarker}) {
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

void write_demo_tokenizer(const fs::path& directory, const Json& tokenizer) {
  make_directory(directory);
  write_file_atomically(directory / "tokenizer.json", tokenizer.dump() + "\n");
  write_file_atomically(
      directory / "tokenizer_config.json",
      Json::object({{"tokenizer_class", "PreTrainedTokenizerFast"}, {"eos_token", "<|end|>"}, {"pad_token", "<|end|>"}})
              .dump(2) +
          "\n");
}

}  // namespace easydel::cli
