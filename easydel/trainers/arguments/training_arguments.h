// The arguments of a training run: EasyDeL's keys, with its defaults.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/dtype.h"
#include "easydel/core/json/json.h"
#include "easydel/trainers/arguments/log_arguments.h"
#include "easydel/trainers/objectives/distillation/written_arguments.h"
#include "easydel/trainers/objectives/embedding/embedding_arguments.h"
#include "easydel/trainers/objectives/objective_arguments.h"
#include "easydel/trainers/objectives/policy_arguments.h"
#include "easydel/trainers/objectives/ppo/ppo_arguments.h"
#include "easydel/trainers/objectives/prm/prm_arguments.h"

namespace easydel {

struct LossConfig;

// The beginning of an error about a key: "[elarge] run.yaml:12: trainer.learning_rate". Empty: "[TrainingArguments]
// key".
using KeyPlace = std::function<std::string(std::string_view key)>;

struct TrainingArguments {
  // Where the run lives.
  std::optional<std::string> model_name;                              // of run_name(): the model's type
  std::optional<std::string> save_directory = "EasyDeL-Checkpoints";  // null: nothing is written
  std::optional<std::string> trainer_prefix;                          // of run_name()

  // How long, and in which pieces.
  int64_t num_train_epochs = 10;
  std::optional<int64_t> max_training_steps;
  std::optional<int64_t> per_epoch_training_steps;
  int64_t total_batch_size = 32;  // rows of an optimizer's step, over all ranks
  int64_t gradient_accumulation_steps = 1;
  std::optional<std::string> training_time_limit;  // "90min", "2h30m"
  std::optional<int64_t> step_start_point;         // a new run starts its data and schedule here
  bool force_step_start_point = false;             // also a run that resumes from a checkpoint

  // The optimizer.
  double learning_rate = 5e-5;
  std::optional<double> learning_rate_end;
  std::string optimizer = "adamw";
  std::string scheduler = "none";
  int64_t warmup_steps = 0;
  double weight_decay = 0.01;
  std::optional<double> clip_grad;  // of the norm of all gradients together
  std::optional<DType> tx_mu_dtype;
  Json extra_optimizer_kwargs = Json::object();
  std::optional<std::string> frozen_parameters;  // a pattern of names that are not trained
  std::optional<double> ema_decay;               // of a moving average of the weights

  // LoRA: with a rank, adapters are added to the model, and only they are trained.
  std::optional<int64_t> lora_rank;
  std::optional<double> lora_alpha;         // lora_rank
  std::optional<std::string> lora_pattern;  // of the layers that have one; all linear ones
  double lora_dropout = 0.0;
  bool use_rslora = false;
  bool use_dora = false;

  // Numbers.
  std::optional<double> loss_scale;  // for float16; absent: dynamic
  int64_t loss_scale_growth_interval = 2000;
  int64_t max_skipped_steps = 3;  // steps in a row whose gradients are not finite; one more ends the run
  Json loss_config;               // keys of LossConfig; null: its defaults
  bool aux_loss_enabled = false;  // of the routers
  std::optional<std::string> gradient_checkpointing;  // the model's; a policy's name
  std::optional<int64_t> lmhead_chunksize;            // tokens whose logits are held at once; loss_config.chunk_size
  std::optional<double> memory_limit;                 // in GiB, for the estimate; null: what the device has free
  bool offload_optimizer = false;                     // its states are in the host's memory
  std::optional<std::string> fp8;                     // scales of linear maps in float8: rowwise, tensorwise
  std::optional<double> neftune_noise_alpha;          // of the noise on embeddings in training; none

  // Evaluation.
  bool do_train = true;  // false: train() only evaluates
  bool do_eval = false;
  std::optional<int64_t> eval_batch_size;  // total_batch_size
  std::optional<int64_t> evaluation_steps;
  std::optional<int64_t> max_evaluation_steps;
  std::optional<int64_t> per_epoch_evaluation_steps;  // the same; the smaller counts
  std::optional<int64_t> early_stopping_patience;     // evaluations without a better metric
  double early_stopping_threshold = 0.0;
  std::string metric_for_best_model = "eval_loss";
  std::optional<bool> greater_is_better;  // prefers_greater()
  bool load_best_model_at_end = false;

  // Checkpoints.
  std::optional<int64_t> save_steps;
  std::optional<double> save_interval_minutes;
  std::optional<int64_t> save_total_limit;
  bool save_optimizer_state = true;
  bool do_last_save = true;
  bool async_save = true;
  bool merge_lora_before_save = true;
  std::optional<std::string> resume_from;  // "latest" or a checkpoint's directory
  bool resume_if_possible = true;

  // Data.
  std::optional<int64_t> max_length;  // sequence_length()
  std::string truncation_mode = "keep_end";
  bool shuffle_train_dataset = true;
  int64_t shuffle_seed_train = 64871;
  bool group_by_length = false;                       // the rows of a batch have similar lengths
  int64_t seed = 42;                                  // of dropout and of weights that are drawn
  bool remove_unused_columns = true;                  // always: a column that nothing reads reaches no model
  std::vector<std::string> ids_to_pop_from_dataset;   // columns that are dropped before a row is read
  std::optional<int64_t> dataloader_num_workers = 0;  // threads that make examples ahead; 0: dataset_num_proc, else two
  std::optional<int64_t> dataset_num_proc;            // threads that tokenize
  bool use_data_collator = true;                      // always: rows are padded to one length

  // Logs.
  int64_t log_steps = 10;
  int64_t report_steps = 5;
  bool report_metrics = true;
  bool log_grad_norms = true;
  bool use_tensorboard = true;
  bool html_report = true;
  TrackerArguments trackers;
  PreviewArguments previews;
  PushArguments push;
  std::optional<int64_t> dashboard;        // the port of a page on this machine while the run goes on; 0: any free one
  bool performance_mode = false;           // no metrics but the loss
  std::string progress_bar_type = "tqdm";  // tqdm, rich: a bar; json: a line of JSON; none
  double track_memory = 0.0;               // seconds between readings; 0: never. `true` reads as 1
  bool verbose = true;
  std::optional<std::string> profile;  // "STEP" or "STEP:COUNT": steps that are written as a Chrome trace

  // For the objectives. In JSON their keys are at the top level; which of them are read depends on the trainer type.
  TextArguments text;
  DpoArguments dpo;
  KtoArguments kto;
  BcoArguments bco;
  CpoArguments cpo;
  OrpoArguments orpo;
  RewardArguments reward;
  PrmArguments prm;
  DistillationArguments distillation;
  GkdArguments gkd;
  WrittenDistillationArguments written;  // of seq_kd, on_policy_distillation and sparse_distillation
  ClassificationArguments classification;
  EmbeddingArguments embedding;
  RolloutArguments rollout;  // of those that learn from rewards
  GrpoArguments grpo;        // of grpo, gfpo and rlvr
  GfpoArguments gfpo;
  RlvrArguments rlvr;
  RlooArguments rloo;
  PpoArguments ppo;
  OnlineArguments online;  // of online_dpo, xpo and nash_md

  // EasyDeL's defaults for a trainer: "sft" has a learning rate of 2e-5. ConfigError on a type that is not known.
  static TrainingArguments for_trainer(std::string_view trainer_type);
  // Those with the keys of `json` set. ConfigError on an unknown key, with the nearest; NotSupportedError on a key of
  // EasyDeL's that is not supported yet. Texts that read as numbers are numbers: YAML's 1e-5.
  static TrainingArguments from_json(std::string_view trainer_type, const Json& json, const KeyPlace& where = {});
  Json to_json(std::string_view trainer_type) const;

  // ConfigError names the key and its value.
  void validate(const KeyPlace& where = {}) const;
  // The same, and what this trainer would not read: a key that it accepts acts.
  void validate_for(std::string_view trainer_type, const KeyPlace& where = {}) const;
  // Requested settings that are unsupported or have no effect, one sentence each. A trainer logs them at the start.
  std::vector<std::string> unsupported_notes() const;
  std::vector<std::string> ignored_keys;  // EasyDeL keys found by from_json that have no effect here

  LossConfig loss() const;
  // The same with eval_packing in the place of packing, and all steps of prm.
  TrainingArguments for_evaluation() const;
  // model_name, else trainer_prefix and the model's type: "SFT-llama".
  std::string run_name(std::string_view model_type) const;
  bool writes_metrics() const { return report_metrics && !performance_mode; }
  int64_t loader_threads() const;
  // Unless greater_is_better says it: of all metrics but losses, as transformers has it.
  bool prefers_greater() const { return greater_is_better.value_or(!metric_for_best_model.ends_with("loss")); }
  int64_t minibatch_size() const { return total_batch_size / gradient_accumulation_steps; }
  int64_t evaluation_batch_size() const { return eval_batch_size.value_or(total_batch_size); }
  int64_t sequence_length() const { return max_length.value_or(4096); }
  // The most tokens of a row that is trained on: where the trainer writes it, those of a prompt and a completion.
  int64_t row_length(std::string_view trainer_type) const;
  std::optional<double> time_limit_seconds() const;
  struct Steps {
    int64_t first = 0, count = 1;
  };
  std::optional<Steps> profiled_steps() const;  // none also if `profile` cannot be read
};

void list_fields(TrainingArguments& arguments, FieldVisitor& v);
// With those of the trainer's objective.
void list_fields(TrainingArguments& arguments, std::string_view trainer_type, FieldVisitor& v);

// sft, base, dpo, kto, bco, cpo, orpo, reward, prm, distillation, gkd, seq_kd, on_policy_distillation,
// sparse_distillation, classification, grpo, gfpo, rlvr, rloo, ppo, online_dpo, xpo, nash_md, embedding, contrastive.
const std::vector<std::string>& trainer_types();
// Throws for any other; a type that EasyDeL has is NotSupportedError.
void require_trainer_type(std::string_view trainer_type, const std::string& where);

enum class KeySupport { None, Ignored, NotYet };  // unknown; no effect here; not supported yet
// How a key of EasyDeL's trainers that is not a field here is handled.
KeySupport key_support(std::string_view key);

}  // namespace easydel
