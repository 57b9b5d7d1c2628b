// Checkpoints on their way to the hub: the run goes on meanwhile, and does not end because of them.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "easydel/trainers/arguments/training_arguments.h"
#include "easydel/trainers/run/checkpoints.h"

namespace easydel {

// The repository: hub_model_id, or the name of save_directory.
std::string pushed_repository(const TrainingArguments& arguments);

class CheckpointPush {
 public:
  explicit CheckpointPush(const TrainingArguments& arguments);
  ~CheckpointPush();  // waits for the upload that goes on; those that wait are left out
  CheckpointPush(const CheckpointPush&) = delete;
  CheckpointPush& operator=(const CheckpointPush&) = delete;

  // A checkpoint that is complete on disk. Any thread may call it.
  void add(const CheckpointDirectory& checkpoint);
  // Their directories are being read.
  std::vector<int64_t> steps_in_use() const;
  // At the end of a run: the last checkpoint is uploaded if it was not, and all are waited for.
  void finish(const std::optional<CheckpointDirectory>& last);

 private:
  void work();
  void upload(const CheckpointDirectory& checkpoint) const;

  const PushArguments arguments_;
  const std::string repository_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<CheckpointDirectory> waiting_;
  std::optional<int64_t> current_, last_;  // steps: of the upload that goes on, and of the last one that was asked for
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace easydel
