// Validation of TrainingArguments.
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/trainers/arguments/argument_checker.h"

namespace easydel {
namespace {

void check_run(const TrainingArguments& a, const ArgumentChecker& c) {
  c.name("save_directory", a.save_directory);
  c.name("model_name", a.model_name);
  c.at_least("num_train_epochs", a.num_train_epochs, 1);
  c.at_least("max_training_steps", a.max_training_steps, 1);
  c.at_least("per_epoch_training_steps", a.per_epoch_training_steps, 1);
  c.at_least("total_batch_size", a.total_batch_size, 1);
  c.at_least("gradient_accumulation_steps", a.gradient_accumulation_steps, 1);
  require<ConfigError>(a.total_batch_size % a.gradient_accumulation_steps == 0, c.at("total_batch_size"),
                       " must be a multiple of gradient_accumulation_steps; got ", a.total_batch_size, " and ",
                       a.gradient_accumulation_steps, ".");
  c.at_least("step_start_point", a.step_start_point, 0);
  c.rule(a.step_start_point || !a.force_step_start_point, "force_step_start_point",
         "be used together with step_start_point", "true");
  c.rule(a.do_train || a.do_eval, "do_train", "be true if do_eval is not", "false");
  if (a.training_time_limit) {
    c.rule(a.time_limit_seconds().has_value(), "training_time_limit", "read like 90min, 23h, 30s or 1d2h30m",
           concat("\"", *a.training_time_limit, "\""));
  }
}

void check_lora(const TrainingArguments& a, const ArgumentChecker& c) {
  c.at_least("lora_rank", a.lora_rank, 1);
  c.positive("lora_alpha", a.lora_alpha);
  c.name("lora_pattern", a.lora_pattern);
  c.rule(a.lora_dropout >= 0 && a.lora_dropout < 1, "lora_dropout", "be at least 0 and below 1", a.lora_dropout);
  if (a.lora_rank) return;
  c.rule(!a.lora_alpha && !a.lora_pattern && a.lora_dropout == 0 && !a.use_rslora && !a.use_dora, "lora_rank",
         "be given if other LoRA keys are", "none");
}

void check_optimizer(const TrainingArguments& a, const ArgumentChecker& c) {
  c.finite_from_zero("learning_rate", a.learning_rate);
  c.finite_from_zero("learning_rate_end", a.learning_rate_end);
  c.name("optimizer", a.optimizer);
  c.name("scheduler", a.scheduler);
  c.at_least("warmup_steps", a.warmup_steps, 0);
  c.finite_from_zero("weight_decay", a.weight_decay);
  c.positive("clip_grad", a.clip_grad);
  c.rule(a.extra_optimizer_kwargs.is_object(), "extra_optimizer_kwargs", "be an object or null",
         a.extra_optimizer_kwargs.dump());
  if (a.ema_decay) c.rule(*a.ema_decay >= 0 && *a.ema_decay < 1, "ema_decay", "lie in [0, 1)", *a.ema_decay);
  c.positive("loss_scale", a.loss_scale);
  if (a.tx_mu_dtype) {
    const Json* other = a.extra_optimizer_kwargs.find("mu_dtype");
    c.rule(!other, "tx_mu_dtype", "not be used together with extra_optimizer_kwargs.mu_dtype",
           dtype_name(*a.tx_mu_dtype));
    c.only(a.optimizer == "adam" || a.optimizer == "adamw" || a.optimizer == "lion" || a.optimizer == "muon",
           "tx_mu_dtype", concat("be null for the optimizer ", a.optimizer, ", which has no such moment"),
           dtype_name(*a.tx_mu_dtype), "adam, adamw, lion and muon have one.");
  }
  c.at_least("loss_scale_growth_interval", a.loss_scale_growth_interval, 1);
  c.at_least("max_skipped_steps", a.max_skipped_steps, 0);
  c.at_least("lmhead_chunksize", a.lmhead_chunksize, 1);
  c.positive("memory_limit", a.memory_limit);
  if (a.fp8) {
    c.one_of("fp8", *a.fp8, {"rowwise", "tensorwise"});
    c.rule(!a.lora_rank, "fp8", "be null with lora_rank: it is for the weights of the model, not for adapters", *a.fp8);
  }
  c.finite_from_zero("neftune_noise_alpha", a.neftune_noise_alpha);
}

void check_schedule(const TrainingArguments& a, const ArgumentChecker& c) {
  c.at_least("eval_batch_size", a.eval_batch_size, 1);
  c.at_least("evaluation_steps", a.evaluation_steps, 1);
  c.at_least("max_evaluation_steps", a.max_evaluation_steps, 1);
  c.at_least("per_epoch_evaluation_steps", a.per_epoch_evaluation_steps, 1);
  c.at_least("early_stopping_patience", a.early_stopping_patience, 1);
  c.finite_from_zero("early_stopping_threshold", a.early_stopping_threshold);
  c.name("metric_for_best_model", a.metric_for_best_model);
  if (a.early_stopping_patience) {
    c.rule(a.do_eval, "early_stopping_patience", "be used together with do_eval: true", *a.early_stopping_patience);
  }
  c.at_least("save_steps", a.save_steps, 0);
  c.positive("save_interval_minutes", a.save_interval_minutes);
  c.at_least("save_total_limit", a.save_total_limit, 1);
  c.name("resume_from", a.resume_from);
  c.at_least("log_steps", a.log_steps, 1);
  c.at_least("report_steps", a.report_steps, 1);
  c.one_of("progress_bar_type", a.progress_bar_type, {"tqdm", "rich", "json", "none"});
  c.finite_from_zero("track_memory", a.track_memory);
  if (a.profile) {
    c.rule(a.profiled_steps().has_value(), "profile", "read like 10 or 10:3, a step from 1 on and a number of steps",
           concat("\"", *a.profile, "\""));
    c.rule(a.save_directory.has_value(), "profile", "be used together with save_directory", *a.profile);
  }
}

void check_data(const TrainingArguments& a, const ArgumentChecker& c) {
  c.at_least("max_length", a.max_length, 1);
  c.one_of("truncation_mode", a.truncation_mode, {"keep_end", "keep_start"});
  c.rule(!a.group_by_length || !a.text.packing, "group_by_length", "be false with packing, which fills rows", "true");
  c.at_least("dataloader_num_workers", a.dataloader_num_workers, 0);
  c.name("dataset_text_field", a.text.dataset_text_field);
  c.at_least("dataset_num_proc", a.dataset_num_proc, 1);
  c.only(a.use_data_collator, "use_data_collator", "be true", "false", "Rows are always padded to the same length.");
  for (const std::string& column : a.ids_to_pop_from_dataset) c.name("ids_to_pop_from_dataset", column);
  const TextArguments& text = a.text;
  c.one_of("packing_strategy", text.packing_strategy, {"bfd", "bfd_split", "wrapped"});
  c.at_least("dataset_batch_size", text.dataset_batch_size, 1);
  if (text.train_on_inputs) {
    const bool counts = *text.train_on_inputs;
    c.rule(text.completion_only_loss.value_or(!counts) != counts, "train_on_inputs",
           concat("not contradict completion_only_loss, which is ", counts ? "true" : "false"),
           counts ? "true" : "false");
    c.rule(!counts || !text.assistant_only_loss, "train_on_inputs", "not contradict assistant_only_loss, which is true",
           "true");
  }
}

void check_logs(const TrainingArguments& a, const ArgumentChecker& c) {
  check(a.trackers, c);
  check(a.previews, c);
  check(a.push, a.save_directory.has_value(), c);
  c.rule(!a.trackers.reports_to("tensorboard") || a.use_tensorboard, "report_to",
         "not name tensorboard if use_tensorboard is false", "tensorboard");
  if (a.dashboard) {
    c.rule(*a.dashboard >= 0 && *a.dashboard <= 65535, "dashboard", "be a port from 0 to 65535, or true", *a.dashboard);
    c.rule(a.save_directory && a.writes_metrics(), "dashboard", "be used with metrics enabled", *a.dashboard);
  }
  const bool tracks =
      a.trackers.reports_to("wandb") || a.trackers.reports_to("mlflow") || a.trackers.reports_to("trackio");
  c.rule(!tracks || (a.save_directory && a.writes_metrics()), "report_to",
         "be used with a save_directory and with metrics enabled", "a tracker");
}

void check_embedding(const TrainingArguments& a, const ArgumentChecker& c) {
  const EmbeddingArguments& e = a.embedding;
  c.one_of("loss_type", e.loss_type, {"infonce", "mnrl", "triplet"});
  c.positive("temperature", e.temperature);
  c.finite_from_zero("margin", e.margin);
  c.name("query_field", e.query_field);
  c.name("positive_field", e.positive_field);
  c.name("negative_field", e.negative_field);
  c.rule(e.loss_type != "triplet" || e.negative_field, "negative_field", "name a column with loss_type: triplet",
         "null");
  if (e.matryoshka_dims) {
    c.rule(!e.matryoshka_dims->empty(), "matryoshka_dims", "be null or a list of sizes", "an empty list");
    for (const int64_t size : *e.matryoshka_dims) c.at_least("matryoshka_dims", size, 1);
  }
  if (e.pooling_strategy)
    c.one_of("pooling_strategy", *e.pooling_strategy, {"last", "first", "mean", "weighted_mean", "max"});
  c.only(!a.lmhead_chunksize, "lmhead_chunksize", "be null with embedding", a.lmhead_chunksize.value_or(0),
         "An embedding has no logits over the vocabulary.");
  constexpr std::string_view kNoRouters = "This loss does not include the load-balancing loss of experts.";
  c.only(!a.aux_loss_enabled, "aux_loss_enabled", "be false with embedding", "true", kNoRouters);
  c.only(a.loss().auxiliary_loss_coefficient.value_or(0) == 0, "loss_config",
         "not set auxiliary_loss_coefficient with embedding", a.loss().auxiliary_loss_coefficient.value_or(0),
         kNoRouters);
}

void check_contrastive(const TrainingArguments& a, const ArgumentChecker& c) {
  const std::string must = "not be given with contrastive";
  c.only(!a.lmhead_chunksize, "lmhead_chunksize", must, a.lmhead_chunksize.value_or(0),
         "A contrastive model has no logits over the vocabulary.");
  c.only(a.neftune_noise_alpha.value_or(0) == 0, "neftune_noise_alpha", must, a.neftune_noise_alpha.value_or(0),
         "NEFTune noise is defined for decoders.");
  c.only(!a.group_by_length, "group_by_length", must, "true", "Its texts are padded to a fixed length.");
  constexpr std::string_view kNoRouters = "Neither tower has experts.";
  c.only(!a.aux_loss_enabled, "aux_loss_enabled", must, "true", kNoRouters);
  c.only(a.loss().auxiliary_loss_coefficient.value_or(0) == 0, "loss_config",
         "not set auxiliary_loss_coefficient with contrastive", a.loss().auxiliary_loss_coefficient.value_or(0),
         kNoRouters);
}

// Consumes the leading digits of `text`; nothing if there are none or too many.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9')
    value = value * 10 + (text[digits++] - '0');
  if (digits == 0 || digits > 9) return std::nullopt;
  text.remove_prefix(digits);
  return value;
}

std::string_view take_letters(std::string_view& text) {
  std::size_t size = 0;
  while (size < text.size() && text[size] >= 'a' && text[size] <= 'z') ++size;
  const std::string_view letters = text.substr(0, size);
  text.remove_prefix(size);
  return letters;
}

}  // namespace

void TrainingArguments::validate(const KeyPlace& place) const {
  const KeyPlace where = place ? place : [](std::string_view key) { return concat("[TrainingArguments] ", key); };
  const ArgumentChecker checker(where);
  check_run(*this, checker);
  check_optimizer(*this, checker);
  check_lora(*this, checker);
  check_schedule(*this, checker);
  check_data(*this, checker);
  check_logs(*this, checker);
  check_objectives(*this, checker);
  try {
    loss();
  } catch (const ConfigError& error) {
    fail<ConfigError>(where("loss_config"), ": ", error.what());
  } catch (const NotSupportedError& error) {
    fail<NotSupportedError>(where("loss_config"), ": ", error.what());
  }
}

void TrainingArguments::validate_for(std::string_view type, const KeyPlace& place) const {
  validate(place);
  const KeyPlace where = place ? place : [](std::string_view key) { return concat("[TrainingArguments] ", key); };
  const ArgumentChecker c(where);
  if (type == "reward" || type == "classification" || type == "prm") {
    c.only(!lmhead_chunksize, "lmhead_chunksize", concat("be null with ", type), lmhead_chunksize.value_or(0),
           "A classifier has no logits over the vocabulary.");
  }
  if (!has_previews(type) && previews.generation_interval)
    c.only(false, "generation_interval", concat("be null with ", type), *previews.generation_interval,
           "Its model does not generate text.");
  if (type == "embedding") check_embedding(*this, c);
  if (type == "contrastive") check_contrastive(*this, c);
  if (type == "reward") {
    c.only(truncation_mode == "keep_end", "truncation_mode", "not be given with reward", truncation_mode,
           "Rows longer than max_length are skipped.");
  }
  const auto is = [type](auto... names) { return ((type == names) || ...); };
  const bool drops_nothing =
      (is("dpo") && dpo.disable_dropout) || (is("orpo") && orpo.disable_dropout) ||
      (is("kto") && kto.disable_dropout) || (is("bco") && bco.disable_dropout) || (is("cpo") && cpo.disable_dropout) ||
      (learns_from_rewards(type) && rollout.disable_dropout) || (is("reward") && reward.disable_dropout) ||
      (is("prm") && prm.disable_dropout) || (is("gkd") && gkd.disable_dropout);
  c.rule(!drops_nothing || lora_dropout == 0, "lora_dropout", "be 0 if disable_dropout is true", lora_dropout);
  if (learns_from_rewards(type)) {
    c.only(neftune_noise_alpha.value_or(0) == 0, "neftune_noise_alpha", concat("be null or 0 with ", type),
           neftune_noise_alpha.value_or(0), "Probability ratios compare the policy with itself, without noise.");
  }
  // Of a group of one nothing can be told apart; ppo compares with its value model.
  if (learns_from_rewards(type) && !prefers_own_samples(type) && !is("ppo"))
    c.at_least("num_return_sequences", rollout.num_return_sequences, 2);
  c.only(!group_by_length || !(learns_from_rewards(type) || is("gkd") || distils_what_is_written(type)),
         "group_by_length", concat("be false with ", type), "true",
         "Its rows are prompts, and their completions are of any length.");
  if (is("gkd")) {
    c.rule(gkd.max_new_tokens < sequence_length(), "max_length",
           concat("be above max_new_tokens, which is ", gkd.max_new_tokens), sequence_length());
  }
  if ((learns_from_rewards(type) || distils_what_is_written(type)) && max_length) {
    const RolloutArguments& drawn = distils_what_is_written(type) ? written.rollout : rollout;
    const int64_t both = drawn.max_prompt_length.value_or(0) + drawn.max_completion_length;
    c.rule(both <= *max_length, "max_length",
           concat("hold max_prompt_length and max_completion_length, ", both, " tokens together"), *max_length);
  }
  const bool has_own_loss = is("dpo", "kto", "bco", "cpo", "orpo", "reward", "distillation", "gkd",
                               "on_policy_distillation", "sparse_distillation", "embedding", "contrastive") ||
                            learns_from_rewards(type) || (is("sft", "base") && text.loss_type == "dft");
  if (!has_own_loss) return;
  const LossConfig given = loss();
  const auto own = [&](std::string_view key, bool is_standard, const auto& value) {
    c.only(is_standard, "loss_config", concat("not set ", key, " with ", type, ", which has its own loss"), value,
           "Only chunk_token_size and auxiliary_loss_coefficient apply there.");
  };
  own("label_smoothing", given.label_smoothing == 0, given.label_smoothing);
  own("z_loss_coefficient", given.z_loss_coefficient == 0, given.z_loss_coefficient);
  own("reduction", given.reduction == "mean", given.reduction);
  own("shift_tokens", given.shift_tokens, "false");
  own("ignore_index", given.ignore_index == -100, given.ignore_index);
  own("problem_type", !given.problem_type, given.problem_type.value_or(""));
}

std::optional<TrainingArguments::Steps> TrainingArguments::profiled_steps() const {
  if (!profile) return std::nullopt;
  std::string_view rest = *profile;
  Steps steps;
  const auto first = take_number(rest);
  if (!first || *first < 1) return std::nullopt;
  steps.first = static_cast<int64_t>(*first);
  if (rest.empty()) return steps;
  if (rest.front() != ':') return std::nullopt;
  rest.remove_prefix(1);
  const auto count = take_number(rest);
  if (!count || *count < 1 || !rest.empty()) return std::nullopt;
  steps.count = static_cast<int64_t>(*count);
  return steps;
}

// EasyDeL reads one number and one unit; several may follow each other here.
std::optional<double> TrainingArguments::time_limit_seconds() const {
  if (!training_time_limit) return std::nullopt;
  std::string lower;
  for (const char c : *training_time_limit) {
    if (c != ' ') lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  struct Unit {
    std::string_view name;
    double seconds;
  };
  static constexpr Unit kUnits[] = {{"d", 86400},    {"day", 86400}, {"days", 86400}, {"h", 3600},    {"hour", 3600},
                                    {"hours", 3600}, {"min", 60},    {"m", 60},       {"minute", 60}, {"minutes", 60},
                                    {"s", 1},        {"sec", 1},     {"second", 1},   {"seconds", 1}};
  std::string_view rest = lower;
  double total = 0;
  while (!rest.empty()) {
    const auto number = take_number(rest);
    const std::string_view name = take_letters(rest);
    double seconds = 0;
    for (const Unit& unit : kUnits) {
      if (unit.name == name) seconds = unit.seconds;
    }
    if (!number || seconds == 0) return std::nullopt;
    total += *number * seconds;
  }
  return total > 0 ? std::optional(total) : std::nullopt;
}

}  // namespace easydel
