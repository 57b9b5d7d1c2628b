#include "easydel/trainers/checkpoints.h"

#include <algorithm>
#include <charconv>

#include "easydel/core/error.h"
#include "easydel/core/file.h"
#include "easydel/core/log.h"
#include "easydel/core/replace_directory.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "run-";
constexpr const char* kTrainerFile = "trainer.json";

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc() && at == end && step >= 0 ? std::optional(step) : std::nullopt;
}

bool is_complete(const fs::path& directory) {
  return fs::exists(directory / "state.json") && fs::exists(directory / kTrainerFile);
}

}  // namespace

fs::path checkpoint_path(const fs::path& directory, int64_t step) { return directory / concat(kPrefix, step); }

std::vector<CheckpointDirectory> list_checkpoints(const fs::path& directory) {
  std::vector<CheckpointDirectory> all;
  if (!fs::is_directory(directory)) return all;
  for (const std::string& name : list_directory(directory)) {
    const auto step = step_of(name);
    if (step && is_complete(directory / name)) all.push_back({*step, directory / name});
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return all;
}

std::optional<CheckpointDirectory> find_checkpoint(const std::string& resume_from, const fs::path& directory) {
  if (resume_from == "latest") {
    const auto all = list_checkpoints(directory);
    return all.empty() ? std::nullopt : std::optional(all.back());
  }
  const fs::path path(resume_from);
  if (const auto inside = list_checkpoints(path); !is_complete(path) && !inside.empty()) return inside.back();
  require<IoError>(is_complete(path), "[resume_from] ", path.string(),
                   " is no checkpoint of a run: it needs state.json and ", kTrainerFile, ".");
  return CheckpointDirectory{Json::parse_file((path / "state.json").string()).at("step").as_int(), path};
}

Json read_trainer_file(const fs::path& checkpoint) { return Json::parse_file((checkpoint / kTrainerFile).string()); }

void remove_old_checkpoints(const fs::path& directory, int64_t limit, const std::vector<int64_t>& kept) {
  auto all = list_checkpoints(directory);
  auto left = static_cast<int64_t>(all.size());
  for (const CheckpointDirectory& checkpoint : all) {
    if (left <= limit) return;
    if (checkpoint.step == all.back().step || std::find(kept.begin(), kept.end(), checkpoint.step) != kept.end())
      continue;
    // Renamed first: what a killed removal leaves behind is no checkpoint.
    const fs::path doomed = unfinished_name(checkpoint.path);
    std::error_code error;
    fs::remove_all(doomed, error);
    fs::rename(checkpoint.path, doomed, error);
    if (!error) fs::remove_all(doomed, error);
    if (error) log::warning("[save_total_limit] ", checkpoint.path.string(), " cannot be removed: ", error.message());
    --left;
  }
}

void copy_tokenizer_files(const fs::path& from, const fs::path& to) {
  for (const char* name :
       {"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
        "vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json", "generation_config.json"}) {
    if (fs::is_regular_file(from / name)) write_file_atomically(to / name, read_file(from / name));
  }
}

BackgroundWriter::~BackgroundWriter() {
  if (thread_.joinable()) thread_.join();
}

void BackgroundWriter::wait() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void BackgroundWriter::start(std::function<void()> write) {
  wait();
  thread_ = std::thread([this, write = std::move(write)] {
    try {
      write();
    } catch (...) {
      error_ = std::current_exception();
    }
  });
}

}  // namespace easydel
