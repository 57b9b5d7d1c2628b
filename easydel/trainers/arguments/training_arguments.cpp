#include "easydel/trainers/arguments/training_arguments.h"

#include <algorithm>
#include <map>

#include "easydel/core/error.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel {
namespace {

// EasyDeL's trainers that are not supported.
constexpr std::string_view kOtherTrainers[] = {"agentic-moshpit", "agentic_moshpit", "gspo", "nash-md", "sdpo"};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

const std::vector<std::string>& trainer_types() {
  static const std::vector<std::string> types = {"sft",
                                                 "base",
                                                 "dpo",
                                                 "kto",
                                                 "bco",
                                                 "cpo",
                                                 "orpo",
                                                 "reward",
                                                 "prm",
                                                 "distillation",
                                                 "gkd",
                                                 "seq_kd",
                                                 "on_policy_distillation",
                                                 "sparse_distillation",
                                                 "classification",
                                                 "grpo",
                                                 "gfpo",
                                                 "rlvr",
                                                 "rloo",
                                                 "ppo",
                                                 "online_dpo",
                                                 "xpo",
                                                 "nash_md",
                                                 "embedding",
                                                 "contrastive"};
  return types;
}

void require_trainer_type(std::string_view type, const std::string& where) {
  const auto& known = trainer_types();
  if (std::find(known.begin(), known.end(), type) != known.end()) return;
  if (std::find(std::begin(kOtherTrainers), std::end(kOtherTrainers), type) != std::end(kOtherTrainers)) {
    const std::string_view instead = type == "gspo"      ? " Use grpo with importance_sampling_level: sequence."
                                     : type == "nash-md" ? " Use nash_md."
                                                         : "";
    fail<NotSupportedError>(where, " \"", type,
                            "\" is an EasyDeL trainer that is not supported yet; known: ", joined(known), ".", instead);
  }
  const std::string near = nearest_name(std::string(type), known);
  fail<ConfigError>(where, " must name a trainer; known: ", joined(known), "; got \"", type, "\".",
                    near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
}

void list_fields(TrainingArguments& a, FieldVisitor& v) {
  v("model_name", a.model_name, "Title of the report; null: trainer_prefix and the model type.");
  v("save_directory", a.save_directory, "Directory for checkpoints and logs; null: nothing is written.");
  v("trainer_prefix", a.trainer_prefix, "Prefix of the model type in the report's title.");

  v("num_train_epochs", a.num_train_epochs, "Passes over the data.");
  v("max_training_steps", a.max_training_steps, "Maximum number of optimizer steps; null: determined by the epochs.");
  v("per_epoch_training_steps", a.per_epoch_training_steps, "Steps per epoch, for data without a known length.");
  v("total_batch_size", a.total_batch_size, "Batch size: rows per optimizer step, over all ranks.");
  v("gradient_accumulation_steps", a.gradient_accumulation_steps, "Minibatches per optimizer step.");
  v("training_time_limit", a.training_time_limit, "Save a checkpoint and stop after this time: 90min, 2h30m.");
  v("step_start_point", a.step_start_point, "Start at this step: the schedule and the data skip the steps before it.");
  v("force_step_start_point", a.force_step_start_point, "Also apply it when resuming from a checkpoint.");

  v("learning_rate", a.learning_rate, "Peak learning rate.");
  v("learning_rate_end", a.learning_rate_end, "Final learning rate; null: the scheduler's default.");
  v("optimizer", a.optimizer, "adamw, adamw_8bit, lion, muon, adafactor, …", {"optim"});
  v("scheduler", a.scheduler, "none, linear, cosine, …");
  v("warmup_steps", a.warmup_steps, "Steps over which the learning rate rises from 0.");
  v("weight_decay", a.weight_decay, "Weight decay, multiplied by the learning rate.");
  v("clip_grad", a.clip_grad, "Maximum global gradient norm; null: no clipping.");
  v("tx_mu_dtype", a.tx_mu_dtype, "Dtype of the first moment (adam, adamw, lion, muon); null: that of the weights.");
  v("extra_optimizer_kwargs", a.extra_optimizer_kwargs, "Additional optimizer options.");
  v("frozen_parameters", a.frozen_parameters, "Regular expression: parameters whose names match are not trained.");
  v("ema_decay", a.ema_decay, "Decay of an exponential moving average of the weights; null: none.");

  v("lora_rank", a.lora_rank, "Train only LoRA adapters of this rank; null: train the whole model.");
  v("lora_alpha", a.lora_alpha, "LoRA alpha; adapters are scaled by alpha / rank; null: lora_rank.");
  v("lora_pattern", a.lora_pattern, "Regular expression for the layers that get an adapter; null: all linear layers.");
  v("lora_dropout", a.lora_dropout, "Dropout probability for the adapters' inputs.");
  v("use_rslora", a.use_rslora, "Scale by alpha / sqrt(rank) instead of alpha / rank.");
  v("use_dora", a.use_dora, "Use DoRA: learn the norm of each row separately from its direction.");

  v("loss_scale", a.loss_scale, "Loss scale for float16; null: dynamic.");
  v("loss_scale_growth_interval", a.loss_scale_growth_interval,
    "Consecutive finite steps after which the loss scale doubles.");
  v("max_skipped_steps", a.max_skipped_steps,
    "Maximum number of consecutive steps skipped because of non-finite gradients.");
  v("loss_config", a.loss_config, "Options of the loss; null: the defaults.");
  v("aux_loss_enabled", a.aux_loss_enabled, "Add the routers' load-balancing loss.");
  v("gradient_checkpointing", a.gradient_checkpointing, "Checkpointing policy; null: the model's.");
  v("lmhead_chunksize", a.lmhead_chunksize,
    "Tokens whose logits are computed at once; null: the model's setting, otherwise automatic.");
  v("memory_limit", a.memory_limit,
    "Memory limit in GiB to compare the estimate with; null: the free memory of the device.");
  v("offload_optimizer", a.offload_optimizer,
    "Keep optimizer states in host memory and copy them to the GPU in parts at each step.");
  v("fp8", a.fp8,
    "Use float8 matrix products in linear layers, with rowwise or tensorwise scales; null: the model's dtype.");
  v("neftune_noise_alpha", a.neftune_noise_alpha,
    "NEFTune: strength of the noise added to embeddings in training; null: none.");

  v("do_train", a.do_train, "Train; false: only evaluate, which needs do_eval.");
  v("do_eval", a.do_eval, "Evaluate.");
  v("eval_batch_size", a.eval_batch_size, "Rows per evaluation step; null: total_batch_size.");
  v("evaluation_steps", a.evaluation_steps, "Steps between evaluations; null: after each epoch.");
  v("max_evaluation_steps", a.max_evaluation_steps, "Maximum number of batches per evaluation; null: all.");
  v("per_epoch_evaluation_steps", a.per_epoch_evaluation_steps,
    "Same as max_evaluation_steps; the smaller of the two applies.");
  v("early_stopping_patience", a.early_stopping_patience,
    "Stop after this many evaluations without improvement; null: never.");
  v("early_stopping_threshold", a.early_stopping_threshold, "Minimum change that counts as an improvement.");
  v("metric_for_best_model", a.metric_for_best_model, "The metric that decides which model is best.");
  v("greater_is_better", a.greater_is_better,
    "Whether higher values of that metric are better; null: yes, unless its name ends with loss.");
  v("load_best_model_at_end", a.load_best_model_at_end, "Load the best checkpoint's weights at the end.");

  v("save_steps", a.save_steps, "Steps between checkpoints; null or 0: only at the end.");
  v("save_interval_minutes", a.save_interval_minutes, "Minutes between checkpoints; null: no time-based checkpoints.");
  v("save_total_limit", a.save_total_limit, "Number of checkpoints to keep; null: all.");
  v("save_optimizer_state", a.save_optimizer_state, "Whether checkpoints include the optimizer state.");
  v("do_last_save", a.do_last_save, "Save at the end.");
  v("async_save", a.async_save, "Write checkpoints in the background while training continues.");
  v("merge_lora_before_save", a.merge_lora_before_save, "Also save the model with its adapters merged.");
  v("resume_from", a.resume_from, "\"latest\" or a checkpoint's directory.");
  v("resume_if_possible", a.resume_if_possible, "Resume from the latest checkpoint of the same run, if there is one.");

  v("max_length", a.max_length, "Maximum number of tokens per row; null: 4096.", {"max_sequence_length"});
  v("truncation_mode", a.truncation_mode, "keep_end or keep_start.");
  v("shuffle_train_dataset", a.shuffle_train_dataset, "Shuffle the data for each epoch.");
  v("shuffle_seed_train", a.shuffle_seed_train, "Seed of the shuffling.");
  v("group_by_length", a.group_by_length, "Batch rows of similar length together, which saves padding.");
  v("seed", a.seed, "Seed of all other random numbers.");
  v("remove_unused_columns", a.remove_unused_columns, "Always true: unused columns never reach the model.");
  v("ids_to_pop_from_dataset", a.ids_to_pop_from_dataset, "Columns to drop from the data.");
  v("dataloader_num_workers", a.dataloader_num_workers,
    "Threads that prefetch examples; 0: dataset_num_proc, otherwise two.");
  v("dataset_num_proc", a.dataset_num_proc, "Threads that tokenize; null: two, or one with bfd packing.");
  v("use_data_collator", a.use_data_collator, "Always true: rows are padded to the same length.");

  v("log_steps", a.log_steps, "Steps between log lines.");
  v("report_steps", a.report_steps, "Steps between points in TensorBoard.");
  v("report_metrics", a.report_metrics, "Write metrics.jsonl, TensorBoard's files and the report.");
  v("log_grad_norms", a.log_grad_norms, "Include the gradient norm in the metrics.");
  v("use_tensorboard", a.use_tensorboard, "Write TensorBoard event files.");
  v("html_report", a.html_report, "Write report.html.");
  list_fields(a.trackers, v);
  list_fields(a.previews, v);
  list_fields(a.push, v);
  v("dashboard", a.dashboard, "Port of a live dashboard; 0: any free port, true: 8265, null: no dashboard.");
  v("performance_mode", a.performance_mode, "Disable metrics and reports.");
  v("progress_bar_type", a.progress_bar_type, "tqdm or rich: a progress bar; json: lines of JSON; none.");
  v("track_memory", a.track_memory, "Seconds between memory samples for the metric memory_max; 0: none.");
  v("verbose", a.verbose, "Print progress.");
  v("profile", a.profile, "Steps to profile into a Chrome trace: STEP or STEP:COUNT; null: none.");
}

void list_fields(TrainingArguments& a, std::string_view type, FieldVisitor& v) {
  list_fields(a, v);
  if (type == "dpo") return list_fields(a.dpo, v);
  if (type == "kto") return list_fields(a.kto, v);
  if (type == "bco") return list_fields(a.bco, v);
  if (type == "cpo") return list_fields(a.cpo, v);
  if (type == "orpo") return list_fields(a.orpo, v);
  if (type == "ppo") return list_fields(a.ppo, a.rollout, v);
  if (prefers_own_samples(type)) {
    list_sampling_fields(a.rollout, v);
    return list_fields(a.online, type, v);
  }
  if (learns_from_rewards(type)) {
    list_fields(a.rollout, v);
    if (type == "rloo") return list_fields(a.rloo, v);
    list_fields(a.grpo, v);
    if (type == "gfpo") list_fields(a.gfpo, v);
    if (type == "rlvr") list_fields(a.rlvr, v);
    return;
  }
  if (type == "reward") return list_fields(a.reward, v);
  if (type == "prm") return list_fields(a.prm, v);
  if (type == "gkd") return list_fields(a.gkd, v);
  if (distils_what_is_written(type)) return list_fields(a.written, type, v);
  if (type == "embedding") return list_fields(a.embedding, v);
  if (type == "contrastive") return list_pair_fields(a.text, a.classification, v);
  if (type == "classification") {
    list_text_fields(a.text, v);
    return list_fields(a.classification, v);
  }
  list_fields(a.text, v);
  if (type == "distillation") return list_fields(a.distillation, v);
  list_sft_fields(a.text, v);
}

TrainingArguments TrainingArguments::for_trainer(std::string_view type) {
  require_trainer_type(type, "[TrainingArguments] trainer_type");
  static const std::map<std::string_view, std::string> prefixes = {{"sft", "SFT"},
                                                                   {"dpo", "DPO"},
                                                                   {"kto", "KTO"},
                                                                   {"bco", "BCO"},
                                                                   {"cpo", "CPO"},
                                                                   {"orpo", "ORPO"},
                                                                   {"grpo", "GRPO"},
                                                                   {"gfpo", "GFPO"},
                                                                   {"rlvr", "RLVR"},
                                                                   {"rloo", "RLOO"},
                                                                   {"reward", "Reward"},
                                                                   {"distillation", "Distillation"},
                                                                   {"gkd", "GKD"},
                                                                   {"seq_kd", "SeqKD"},
                                                                   {"on_policy_distillation", "OnPolicyDistillation"},
                                                                   {"sparse_distillation", "SparseDistillation"},
                                                                   {"classification", "Classification"},
                                                                   {"xpo", "XPO"},
                                                                   {"online_dpo", "OnlineDPO"},
                                                                   {"nash_md", "NashMD"},
                                                                   {"ppo", "PPO"},
                                                                   {"prm", "PRM"},
                                                                   {"embedding", "Embedding"},
                                                                   {"contrastive", "Contrastive"}};
  TrainingArguments arguments;
  if (const auto prefix = prefixes.find(type); prefix != prefixes.end()) arguments.trainer_prefix = prefix->second;
  if (type == "sft" || type == "gkd") arguments.learning_rate = 2e-5;
  const auto is = [type](auto... names) { return ((type == names) || ...); };
  if (is("dpo", "orpo", "grpo", "gfpo", "rlvr", "rloo", "ppo")) arguments.learning_rate = 1e-6;
  if (is("dpo", "embedding")) arguments.max_length = 512;
  if (is("kto", "bco", "cpo", "orpo", "reward", "prm")) arguments.max_length = 1024;
  if (is("prm")) arguments.learning_rate = 1e-5;
  if (is("rlvr")) arguments.rollout.mask_truncated_completions = true;
  if (is("rloo")) arguments.rollout.num_return_sequences = 2;
  if (is("ppo")) {
    arguments.rollout.num_return_sequences = 1;
    arguments.rollout.temperature = 0.7;
    arguments.rollout.top_p = 0.95;
  }
  if (prefers_own_samples(type)) {
    arguments.learning_rate = 5e-7;
    arguments.rollout.temperature = 0.9;
    arguments.rollout.disable_dropout = true;
  }
  if (is("classification", "embedding", "contrastive", "prm")) arguments.truncation_mode = "keep_start";
  return arguments;
}

int64_t TrainingArguments::row_length(std::string_view type) const {
  if (!learns_from_rewards(type) && !distils_what_is_written(type)) return sequence_length();
  const RolloutArguments& drawn = distils_what_is_written(type) ? written.rollout : rollout;
  if (!drawn.max_prompt_length) return sequence_length();
  return *drawn.max_prompt_length + drawn.max_completion_length;
}

std::vector<std::string> TrainingArguments::unsupported_notes() const {
  std::vector<std::string> notes;
  if (!remove_unused_columns)
    notes.push_back("remove_unused_columns: false has no effect: unused columns never reach the model.");
  for (const std::string& key : ignored_keys) notes.push_back(key + " has no effect here.");
  return notes;
}

TrainingArguments TrainingArguments::for_evaluation() const {
  TrainingArguments arguments = *this;
  arguments.text.packing = text.eval_packing.value_or(text.packing);
  arguments.prm.train_on_last_step_only = false;
  return arguments;
}

std::string TrainingArguments::run_name(std::string_view model_type) const {
  if (model_name) return *model_name;
  return concat(trainer_prefix.value_or(""), trainer_prefix && !trainer_prefix->empty() ? "-" : "", model_type);
}

int64_t TrainingArguments::loader_threads() const {
  const int64_t asked = dataloader_num_workers.value_or(0);
  return asked > 0 ? asked : dataset_num_proc.value_or(2);
}

}  // namespace easydel
