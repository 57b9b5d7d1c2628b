// Where a run shows itself besides its own directory: trackers, previews of what the model writes, the hub.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {

class ArgumentChecker;
class FieldVisitor;
struct RolloutArguments;

constexpr int64_t kDashboardPort = 8265;  // by default

struct TrackerArguments {
  std::vector<std::string> report_to;        // wandb, mlflow, trackio, tensorboard; empty, none: no tracker
  bool use_wandb = false;                    // the same as "wandb" there; EasyDeL's default is true
  std::optional<std::string> wandb_entity;   // WANDB_ENTITY, else the account's
  std::optional<std::string> wandb_project;  // of all trackers. Their variable, else "EasyDeL-" and trainer_prefix
  std::optional<std::string> wandb_name;     // of the run, likewise; TrainingArguments::run_name()
  std::optional<std::string> mlflow_tracking_uri;  // MLFLOW_TRACKING_URI

  bool reports_to(std::string_view tracker) const;
};

// Sample generations for some prompts during training.
struct PreviewArguments {
  std::optional<int64_t> generation_interval;  // steps; never
  Json generation_prompts = Json::array();     // texts, lists of messages, or rows
  bool generation_use_train_prompts = false;
  std::optional<int64_t> generation_num_prompts;  // those that are given, or one of the data
  std::string generation_dataset_prompt_field = "prompt";
  std::optional<int64_t> generation_num_return_sequences;  // 1; of trainers with rollouts theirs, as the next four
  std::optional<int64_t> generation_max_new_tokens;        // 128
  std::optional<double> generation_temperature;            // 1
  std::optional<double> generation_top_p;                  // 1
  std::optional<int64_t> generation_top_k;                 // all
  std::optional<double> generation_repetition_penalty;     // 1
  std::optional<bool> generation_do_sample;                // if temperature, top_p or top_k say how
  std::optional<int64_t> generation_seed;                  // seed
  bool generation_preview_print = true;                    // EasyDeL's default is false
  bool generation_log_to_wandb = true;

  // Filled in with the defaults; `rollout` is that of a trainer with rollouts, or null.
  RolloutArguments sampling(const RolloutArguments* rollout) const;
};

// Checkpoints that go to the hub while the run goes on, in trl's and transformers' names.
struct PushArguments {
  bool push_to_hub = false;
  std::optional<std::string> hub_model_id;  // the name of save_directory
  std::string hub_strategy = "every_save";  // or end: the last checkpoint alone
  std::optional<bool> hub_private_repo;     // the account's default
  bool hub_always_push = false;             // false: a checkpoint is skipped while the one before is being uploaded
};

// Whether this trainer's model writes texts: those that embed or classify have no previews.
bool has_previews(std::string_view trainer_type);

void list_fields(TrackerArguments& trackers, FieldVisitor& v);
void list_fields(PreviewArguments& previews, FieldVisitor& v);
void list_fields(PushArguments& push, FieldVisitor& v);
void check(const TrackerArguments& trackers, const ArgumentChecker& checker);
void check(const PreviewArguments& previews, const ArgumentChecker& checker);
void check(const PushArguments& push, bool has_directory, const ArgumentChecker& checker);

}  // namespace easydel
