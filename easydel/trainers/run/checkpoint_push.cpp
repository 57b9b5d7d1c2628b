#include "easydel/trainers/run/checkpoint_push.h"

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/io/hub/hub_push.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

// What only a run that resumes needs.
bool is_of_training(const fs::path& path) {
  const std::string first = path.begin()->string();
  return first.starts_with("optimizer") || first == "state.json" || first == "trainer.json" ||
         first == "rollouts.json" || first == "ema.safetensors" || first == "value" || first == "reference";
}

std::vector<std::string> model_files(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const fs::path path = entry.path().lexically_relative(directory);
    if (entry.is_regular_file() && !is_of_training(path)) names.push_back(path.generic_string());
  }
  return names;
}

}  // namespace

std::string pushed_repository(const TrainingArguments& arguments) {
  if (arguments.push.hub_model_id) return *arguments.push.hub_model_id;
  const fs::path directory = fs::absolute(arguments.save_directory.value_or("")).lexically_normal();
  return (directory.has_filename() ? directory : directory.parent_path()).filename().string();
}

CheckpointPush::CheckpointPush(const TrainingArguments& arguments)
    : arguments_(arguments.push), repository_(pushed_repository(arguments)) {
  thread_ = std::thread([this] { work(); });
}

CheckpointPush::~CheckpointPush() {
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    is_ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CheckpointPush::add(const CheckpointDirectory& checkpoint) {
  const std::lock_guard lock(mutex_);
  if (arguments_.hub_strategy == "end") return;
  if (!arguments_.hub_always_push && (current_ || !waiting_.empty())) return;
  waiting_.push_back(checkpoint);
  last_ = checkpoint.step;
  changed_.notify_all();
}

std::vector<int64_t> CheckpointPush::steps_in_use() const {
  const std::lock_guard lock(mutex_);
  std::vector<int64_t> steps;
  if (current_) steps.push_back(*current_);
  for (const CheckpointDirectory& checkpoint : waiting_) steps.push_back(checkpoint.step);
  return steps;
}

void CheckpointPush::finish(const std::optional<CheckpointDirectory>& last) {
  std::unique_lock lock(mutex_);
  if (last && last_ != last->step) {
    waiting_.push_back(*last);
    last_ = last->step;
    changed_.notify_all();
  }
  if (current_ || !waiting_.empty()) log::info("[push_to_hub] waiting for ", repository_, " to be uploaded");
  changed_.wait(lock, [&] { return !current_ && waiting_.empty(); });
}

void CheckpointPush::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const CheckpointDirectory checkpoint = waiting_.front();
    waiting_.pop_front();
    current_ = checkpoint.step;
    lock.unlock();
    try {
      upload(checkpoint);
    } catch (const std::exception& error) {
      log::warning("[push_to_hub] ", checkpoint.path.string(), " was not uploaded: ", error.what());
    }
    lock.lock();
    current_.reset();
    changed_.notify_all();
  }
}

void CheckpointPush::upload(const CheckpointDirectory& checkpoint) const {
  PushOptions options;
  options.private_repo = arguments_.hub_private_repo;
  options.commit_message = concat("Training, step ", checkpoint.step);
  options.files = model_files(checkpoint.path);
  options.progress = false;
  const CommitInfo commit = upload_folder(checkpoint.path, repository_, options);
  log::info("[push_to_hub] step ", checkpoint.step, " is in ", commit.repo_url);
}

}  // namespace easydel
