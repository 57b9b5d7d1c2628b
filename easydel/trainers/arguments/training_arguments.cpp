#include "easydel/trainers/arguments/training_arguments.h"

#include <algorithm>
#include <map>

#include "easydel/core/error.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel {
namespace {

// EasyDeL's trainers that are not here.
constexpr std::string_view kOtherTrainers[] = {"agentic-moshpit",
                                               "agentic_moshpit",
                                               "bco",
                                               "cpo",
                                               "embedding",
                                               "gfpo",
                                               "gkd",
                                               "grpo",
                                               "gspo",
                                               "kto",
                                               "nash-md",
                                               "nash_md",
                                               "ppo",
                                               "rlvr",
                                               "seq_kd",
                                               "sdpo",
                                               "on_policy_distillation",
                                               "sparse_distillation",
                                               "xpo"};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

const std::vector<std::string>& trainer_types() {
  static const std::vector<std::string> types = {"sft",    "base",         "dpo",           "orpo",
                                                 "reward", "distillation", "classification"};
  return types;
}

void require_trainer_type(std::string_view type, const std::string& where) {
  const auto& known = trainer_types();
  if (std::find(known.begin(), known.end(), type) != known.end()) return;
  if (std::find(std::begin(kOtherTrainers), std::end(kOtherTrainers), type) != std::end(kOtherTrainers)) {
    fail<NotSupportedError>(where, " \"", type,
                            "\" is a trainer of EasyDeL that is not supported yet; known: ", joined(known), ".");
  }
  const std::string near = nearest_name(std::string(type), known);
  fail<ConfigError>(where, " must name a trainer; known: ", joined(known), "; got \"", type, "\".",
                    near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
}

void list_fields(TrainingArguments& a, FieldVisitor& v) {
  v("model_name", a.model_name, "Title of the report; null: trainer_prefix and the model's type.");
  v("save_directory", a.save_directory, "Where checkpoints and logs go; null: nowhere.");
  v("trainer_prefix", a.trainer_prefix, "Stands before the model's type in that title.");

  v("num_train_epochs", a.num_train_epochs, "Passes over the data.");
  v("max_training_steps", a.max_training_steps, "Optimizer steps at most; null: as the epochs have it.");
  v("per_epoch_training_steps", a.per_epoch_training_steps, "Steps of an epoch, where data has no length.");
  v("total_batch_size", a.total_batch_size, "Rows of an optimizer's step, over all ranks.");
  v("gradient_accumulation_steps", a.gradient_accumulation_steps, "Pieces that such a batch is computed in.");
  v("training_time_limit", a.training_time_limit, "Stop, with a checkpoint, after so long: 90min, 2h30m.");
  v("step_start_point", a.step_start_point, "Steps that count as done: schedule and data begin after them.");
  v("force_step_start_point", a.force_step_start_point, "Apply it to a run that goes on from a checkpoint, too.");

  v("learning_rate", a.learning_rate, "The largest learning rate.");
  v("learning_rate_end", a.learning_rate_end, "The last one; null: the scheduler's.");
  v("optimizer", a.optimizer, "adamw, lion, adafactor, …");
  v("scheduler", a.scheduler, "none, linear, cosine, …");
  v("warmup_steps", a.warmup_steps, "Steps over which the learning rate rises from 0.");
  v("weight_decay", a.weight_decay, "How much weights shrink, times the learning rate.");
  v("clip_grad", a.clip_grad, "Largest norm of all gradients together; null: any.");
  v("tx_mu_dtype", a.tx_mu_dtype, "What the first moment is kept in (adam, adamw, lion, muon); null: as the weights.");
  v("extra_optimizer_kwargs", a.extra_optimizer_kwargs, "More options of the optimizer.");
  v("frozen_parameters", a.frozen_parameters, "A pattern: parameters with such names are not trained.");
  v("ema_decay", a.ema_decay, "Keeps an average of the weights; null: none.");

  v("lora_rank", a.lora_rank, "Trains low-rank adapters of this rank alone; null: the whole model.");
  v("lora_alpha", a.lora_alpha, "Their scaling times the rank; null: lora_rank.");
  v("lora_pattern", a.lora_pattern, "Found in the paths of the layers that have one; null: all linear layers.");
  v("lora_dropout", a.lora_dropout, "Share of an adapter's inputs that training drops.");
  v("use_rslora", a.use_rslora, "Scale by alpha / sqrt(rank) instead of alpha / rank.");
  v("use_dora", a.use_dora, "Learn the length of each row apart from its direction.");

  v("loss_scale", a.loss_scale, "Factor of the loss for float16; null: found as it goes.");
  v("loss_scale_growth_interval", a.loss_scale_growth_interval, "Finite steps after which that factor doubles.");
  v("max_skipped_steps", a.max_skipped_steps, "Steps in a row that may be skipped for gradients that are not finite.");
  v("loss_config", a.loss_config, "How the loss is computed; null: its defaults.");
  v("aux_loss_enabled", a.aux_loss_enabled, "Add the loss of the routers' balance.");
  v("gradient_checkpointing", a.gradient_checkpointing, "Which activations are kept; null: the model's.");
  v("lmhead_chunksize", a.lmhead_chunksize,
    "Tokens whose logits are held at once; null: the model's, else chosen here.");

  v("do_train", a.do_train, "Train; false: evaluate alone, which needs do_eval.");
  v("do_eval", a.do_eval, "Evaluate.");
  v("eval_batch_size", a.eval_batch_size, "Rows of an evaluation's step; null: total_batch_size.");
  v("evaluation_steps", a.evaluation_steps, "Steps between evaluations; null: after each epoch.");
  v("max_evaluation_steps", a.max_evaluation_steps, "Batches of an evaluation at most; null: all.");
  v("per_epoch_evaluation_steps", a.per_epoch_evaluation_steps, "The same; the smaller of both counts.");
  v("early_stopping_patience", a.early_stopping_patience, "Evaluations without a better metric; null: no such end.");
  v("early_stopping_threshold", a.early_stopping_threshold, "How much better counts.");
  v("metric_for_best_model", a.metric_for_best_model, "What is compared.");
  v("greater_is_better", a.greater_is_better, "Whether more of it is better.");
  v("load_best_model_at_end", a.load_best_model_at_end, "End with the best checkpoint's weights.");

  v("save_steps", a.save_steps, "Steps between checkpoints; null or 0: only at the end.");
  v("save_interval_minutes", a.save_interval_minutes, "Minutes between checkpoints; null: none by the clock.");
  v("save_total_limit", a.save_total_limit, "Checkpoints kept; null: all.");
  v("save_optimizer_state", a.save_optimizer_state, "Whether they hold what the optimizer knows.");
  v("do_last_save", a.do_last_save, "Save at the end.");
  v("async_save", a.async_save, "Write while training goes on.");
  v("merge_lora_before_save", a.merge_lora_before_save, "Saved models have their adapters merged.");
  v("resume_from", a.resume_from, "\"latest\" or a checkpoint's directory.");
  v("resume_if_possible", a.resume_if_possible, "Go on from the latest checkpoint of the same run, if there is one.");

  v("max_length", a.max_length, "Tokens of a row at most; null: 4096.", {"max_sequence_length"});
  v("truncation_mode", a.truncation_mode, "keep_end or keep_start.");
  v("shuffle_train_dataset", a.shuffle_train_dataset, "Shuffle the data for each epoch.");
  v("shuffle_seed_train", a.shuffle_seed_train, "The order's seed.");
  v("seed", a.seed, "The seed of everything else that is drawn.");
  v("remove_unused_columns", a.remove_unused_columns, "Always so: columns that nothing reads reach no model.");
  v("ids_to_pop_from_dataset", a.ids_to_pop_from_dataset, "Columns to drop before a row is read.");
  v("dataloader_num_workers", a.dataloader_num_workers,
    "Threads that make examples ahead; 0: as dataset_num_proc says, else two.");
  v("dataset_num_proc", a.dataset_num_proc, "Threads that tokenize; null: two, one while bfd packs.");
  v("use_data_collator", a.use_data_collator, "Always so: rows are padded to one length.");

  v("log_steps", a.log_steps, "Steps between lines of the log.");
  v("report_steps", a.report_steps, "Steps between points of the curves.");
  v("report_metrics", a.report_metrics, "Write metrics.jsonl, TensorBoard's files and the report.");
  v("log_grad_norms", a.log_grad_norms, "Give the norm of the gradients among the metrics.");
  v("use_tensorboard", a.use_tensorboard, "Write event files of TensorBoard.");
  v("html_report", a.html_report, "Write report.html.");
  v("use_wandb", a.use_wandb, "Weights & Biases; not supported.");
  v("wandb_entity", a.wandb_entity, "Not used.");
  v("wandb_name", a.wandb_name, "Not used.");
  v("performance_mode", a.performance_mode, "Only what training itself needs: no metrics, no reports.");
  v("progress_bar_type", a.progress_bar_type, "tqdm or rich: a bar; json: lines of JSON; none.");
  v("track_memory", a.track_memory, "Seconds between readings of memory, for the metric memory_max; 0: none.");
  v("verbose", a.verbose, "Say what happens.");
}

void list_fields(TrainingArguments& a, std::string_view type, FieldVisitor& v) {
  list_fields(a, v);
  if (type == "dpo") return list_fields(a.dpo, v);
  if (type == "orpo") return list_fields(a.orpo, v);
  if (type == "reward") return list_fields(a.reward, v);
  if (type == "classification") {
    list_text_fields(a.text, v);
    return list_fields(a.classification, v);
  }
  list_fields(a.text, v);
  if (type == "distillation") list_fields(a.distillation, v);
}

TrainingArguments TrainingArguments::for_trainer(std::string_view type) {
  require_trainer_type(type, "[TrainingArguments] trainer_type");
  static const std::map<std::string_view, std::string> prefixes = {{"sft", "SFT"},
                                                                   {"dpo", "DPO"},
                                                                   {"orpo", "ORPO"},
                                                                   {"reward", "Reward"},
                                                                   {"distillation", "Distillation"},
                                                                   {"classification", "Classification"}};
  TrainingArguments arguments;
  if (const auto prefix = prefixes.find(type); prefix != prefixes.end()) arguments.trainer_prefix = prefix->second;
  if (type == "sft") arguments.learning_rate = 2e-5;
  if (type == "dpo" || type == "orpo") arguments.learning_rate = 1e-6;
  if (type == "dpo") arguments.max_length = 512;
  if (type == "orpo" || type == "reward") arguments.max_length = 1024;
  if (type == "classification") arguments.truncation_mode = "keep_start";
  return arguments;
}

std::vector<std::string> TrainingArguments::unsupported_notes() const {
  std::vector<std::string> notes;
  if (use_wandb) {
    notes.push_back(
        "use_wandb: Weights & Biases is not supported; metrics go to metrics.jsonl, TensorBoard and "
        "report.html.");
  }
  for (const auto& [key, given] : {std::pair{"wandb_entity", wandb_entity}, {"wandb_name", wandb_name}}) {
    if (given) notes.push_back(concat(key, ": Weights & Biases is not supported; model_name is the report's title."));
  }
  if (!remove_unused_columns)
    notes.push_back("remove_unused_columns: false has no meaning here: a column that nothing reads reaches no model.");
  for (const std::string& key : ignored_keys) notes.push_back(key + " has no meaning here.");
  return notes;
}

TrainingArguments TrainingArguments::for_evaluation() const {
  TrainingArguments arguments = *this;
  arguments.text.packing = text.eval_packing.value_or(text.packing);
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
