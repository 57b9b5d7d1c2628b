// The checkpoints of a run: directories run-<step> under one directory.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/infra/state/state.h"

namespace easydel {

struct CheckpointDirectory {
  int64_t step = 0;
  std::filesystem::path path;
};

// Those that are complete, by step.
std::vector<CheckpointDirectory> list_checkpoints(const std::filesystem::path& directory);
std::filesystem::path checkpoint_path(const std::filesystem::path& directory, int64_t step);

// "latest": the last complete one under `directory`, null when there is none; else the path itself. IoError when that
// is no checkpoint.
std::optional<CheckpointDirectory> find_checkpoint(const std::string& resume_from,
                                                   const std::filesystem::path& directory);

Json read_trainer_file(const std::filesystem::path& checkpoint);  // trainer.json. FormatError names what it lacks
bool has_optimizer(const std::filesystem::path& checkpoint);      // as its state.json says

// Before a run resumes from `step`: unfinished leftovers of a killed run are removed, and checkpoints of later steps,
// which belong to another run, are renamed to run-<step>.old.
void tidy_checkpoints(const std::filesystem::path& directory, int64_t step);

// Removes the oldest until this many are left; `kept` is never removed.
void remove_old_checkpoints(const std::filesystem::path& directory, int64_t limit, const std::vector<int64_t>& kept);

// One write at a time, in a background thread. An error is rethrown by the next call of any function.
class BackgroundWriter {
 public:
  ~BackgroundWriter();
  void start(std::function<void()> write);  // waits for the one before
  void wait();
  void rethrow_error();  // does not wait

 private:
  std::thread thread_;
  std::exception_ptr error_;
  std::atomic<bool> failed_ = false;
};

}  // namespace easydel
