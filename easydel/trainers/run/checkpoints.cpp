#include "easydel/trainers/run/checkpoints.h"

#include <algorithm>
#include <charconv>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/files/replace_directory.h"
#include "easydel/core/log.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "run-";
constexpr const char *kTrainerFile = "trainer.json", *kStateFile = "state.json";

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc() && at == end && step >= 0 ? std::optional(step) : std::nullopt;
}

// Of the directory in which a checkpoint was being written or removed, that checkpoint's name.
std::optional<std::string> target_of(const std::string& name) {
  const std::string before = "." + std::string(kPrefix), after = ".unfinished";
  if (!name.starts_with(before) || !name.ends_with(after)) return std::nullopt;
  const std::string target = name.substr(1, name.size() - 1 - after.size());
  return step_of(target) && unfinished_name(target) == name ? std::optional(target) : std::nullopt;
}

bool is_complete(const fs::path& directory) {
  return fs::exists(directory / kStateFile) && fs::exists(directory / kTrainerFile);
}

// Checkpoints appear whole; one that lacks a file was damaged later, and a run must not go back behind it unasked.
void require_none_damaged(const fs::path& directory, int64_t last) {
  if (!fs::is_directory(directory)) return;
  for (const std::string& name : list_directory(directory)) {
    const fs::path path = directory / name;
    const auto step = step_of(name);
    if (!step || *step <= last || !fs::is_directory(path)) continue;
    fail<IoError>("[resume_from] ", path.string(), " lacks ", fs::exists(path / kStateFile) ? kTrainerFile : kStateFile,
                  ". Remove it to resume from the previous checkpoint.");
  }
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
    require_none_damaged(directory, all.empty() ? -1 : all.back().step);
    return all.empty() ? std::nullopt : std::optional(all.back());
  }
  const fs::path path(resume_from);
  if (const auto inside = list_checkpoints(path); !is_complete(path) && !inside.empty()) return inside.back();
  require<IoError>(is_complete(path), "[resume_from] ", path.string(), " is not a checkpoint of a run: it needs ",
                   kStateFile, " and ", kTrainerFile, ".");
  return CheckpointDirectory{Json::parse_file((path / kStateFile).string()).at("step").as_int(), path};
}

Json read_trainer_file(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kTrainerFile;
  Json file = Json::parse_file(path.string());
  const auto need = [&](const Json& object, const char* key, bool (Json::*is)() const) {
    const Json* value = object.is_object() ? object.find(key) : nullptr;
    require<FormatError>(value && (value->*is)(), "[", path.string(), "] \"", key,
                         "\" is missing or has the wrong type.");
  };
  for (const char* key :
       {"step", "total_batch_size", "tokens_seen", "skipped", "skipped_in_a_row", "evaluations_without_gain"})
    need(file, key, &Json::is_int);
  need(file, "loss_scale", &Json::is_object);
  need(file.at("loss_scale"), "scale", &Json::is_number);
  need(file.at("loss_scale"), "good_steps", &Json::is_int);
  need(file, "data", &Json::is_object);
  need(file.at("data"), "step", &Json::is_int);
  need(file.at("data"), "setting", &Json::is_object);
  need(file.at("data"), "positions", &Json::is_object);
  return file;
}

bool has_optimizer(const fs::path& checkpoint) {
  const Json state = Json::parse_file((checkpoint / kStateFile).string());
  return state.is_object() && state.contains("optimizer");
}

void tidy_checkpoints(const fs::path& directory, int64_t step) {
  if (!fs::is_directory(directory)) return;
  for (const std::string& name : list_directory(directory)) {
    std::error_code error;
    const fs::path path = directory / name;
    if (const auto target = target_of(name); target && !fs::exists(directory / *target)) {
      fs::remove_all(path, error);
      if (error) log::warning("[trainer] ", path.string(), " cannot be removed: ", error.message());
    }
    if (const auto of = step_of(name); of && *of > step) {
      fs::path aside = directory / (name + ".old");
      for (int i = 2; fs::exists(aside); ++i) aside = directory / concat(name, ".old", i);
      fs::rename(path, aside, error);
      require<IoError>(!error, "[trainer] ", path.string(), " cannot be renamed to ", aside.string(), ": ",
                       error.message(), ".");
      log::warning("[trainer] ", path.string(), " does not belong to this run, which is at step ", step,
                   "; it was renamed to ", aside.string());
    }
  }
}

void remove_old_checkpoints(const fs::path& directory, int64_t limit, const std::vector<int64_t>& kept) {
  auto all = list_checkpoints(directory);
  auto left = static_cast<int64_t>(all.size());
  for (const CheckpointDirectory& checkpoint : all) {
    if (left <= limit) return;
    if (checkpoint.step == all.back().step || std::find(kept.begin(), kept.end(), checkpoint.step) != kept.end())
      continue;
    // Renamed first: what an interrupted removal leaves behind does not look like a checkpoint.
    const fs::path doomed = unfinished_name(checkpoint.path);
    std::error_code error;
    fs::remove_all(doomed, error);
    fs::rename(checkpoint.path, doomed, error);
    if (!error) fs::remove_all(doomed, error);
    if (error) log::warning("[save_total_limit] ", checkpoint.path.string(), " cannot be removed: ", error.message());
    --left;
  }
}

BackgroundWriter::~BackgroundWriter() {
  if (thread_.joinable()) thread_.join();
}

void BackgroundWriter::wait() {
  if (thread_.joinable()) thread_.join();
  rethrow_error();
}

void BackgroundWriter::rethrow_error() {
  if (!failed_.exchange(false)) return;
  if (thread_.joinable()) thread_.join();
  std::rethrow_exception(std::exchange(error_, nullptr));
}

void BackgroundWriter::start(std::function<void()> write) {
  wait();
  thread_ = std::thread([this, write = std::move(write)] {
    try {
      write();
    } catch (...) {
      error_ = std::current_exception();
      failed_ = true;
    }
  });
}

}  // namespace easydel
