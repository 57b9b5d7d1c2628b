// Every setting of every trainer acts, or is refused by name. A field without a probe fails here.
#include <gtest/gtest.h>

#include "easydel/infra/fields/field_visitor.h"
#include "easydel/trainers/arguments/training_arguments.h"
#include "tests/support/setting_probes.h"
#include "tests/trainers/observed_run.h"

namespace easydel {
namespace {

using testing_support::expect_every_setting_acts;
using testing_support::observe_run;
using testing_support::SettingProbe;

Json set(const std::string& text) { return Json::parse(text); }

Json together(Json settings, const Json& more) {
  for (const auto& [key, value] : more.as_object()) settings[key] = value;
  return settings;
}

// Of the fields that all trainers share.
std::vector<SettingProbe> common_probes(const std::string& type) {
  const Json eval = set(R"({"do_eval": true, "evaluation_steps": 1})");
  const Json lora = set(R"({"lora_rank": 2})");
  const Json half = set(R"({"@dtype": "float16"})");
  const Json again = set(R"({"max_training_steps": 4, "@before": {"max_training_steps": 2}})");
  // Evaluations of which some are better than the one before. The loss of a policy says little: with the mean of a
  // group as the baseline it is 0.
  const Json judged = learns_from_rewards(type)
                          ? together(eval, set(R"({"metric_for_best_model": "eval_reward", "learning_rate": 0.05})"))
                          : eval;
  // The first step spoils the weights. A policy cannot write with them, so that all steps have the same completions.
  Json spoiled = set(R"({"learning_rate": 1e38, "max_training_steps": 4})");
  if (learns_from_rewards(type)) spoiled[type == "ppo" ? "num_ppo_epochs" : "num_iterations"] = 4;
  if (type == "gkd") spoiled["lmbda"] = Json();
  // Nor can a student: its loss is spoiled instead.
  if (type == "on_policy_distillation" || type == "sparse_distillation") spoiled = set(R"({"temperature": 1e-40})");
  return {
      {"model_name", "a name"},
      {"save_directory", "elsewhere"},
      {"save_directory", Json()},
      {"trainer_prefix", "Mine"},
      {"num_train_epochs", 1, set(R"({"max_training_steps": null, "num_train_epochs": 2})")},
      {"max_training_steps", 2},
      {"per_epoch_training_steps", 1, set(R"({"max_training_steps": null, "num_train_epochs": 2})")},
      {"total_batch_size", 2},
      {"gradient_accumulation_steps", 2},
      {"step_start_point", 1},
      {"force_step_start_point", true, set(R"({"step_start_point": 1, "max_training_steps": 4, "@before":
                                               {"max_training_steps": 2}})")},
      {"learning_rate", 0.02},
      {"learning_rate_end", 0.001, set(R"({"scheduler": "cosine"})")},
      {"optimizer", "lion"},
      {"scheduler", "cosine"},
      {"warmup_steps", 2, set(R"({"scheduler": "cosine"})")},
      {"weight_decay", 0.5},
      {"clip_grad", 0.001},
      {"tx_mu_dtype", "bfloat16"},
      {"extra_optimizer_kwargs", set(R"({"b1": 0.5})")},
      {"frozen_parameters", "embed_tokens"},
      {"ema_decay", 0.5},
      {"lora_rank", 2},
      {"lora_alpha", 8.0, lora},
      {"lora_pattern", "q_proj", lora},
      {"lora_dropout", 0.5, lora},  // of some refused, where disable_dropout is the default
      {"use_rslora", true, lora},
      {"use_dora", true, lora},
      {"loss_scale", 4.0, half},
      // Enough steps for a scale that begins too large to come down.
      {"loss_scale_growth_interval", 1, set(R"({"@dtype": "float16", "max_training_steps": 14})")},
      {"max_skipped_steps", 1, spoiled},
      {"loss_config", set(R"({"auxiliary_loss_coefficient": 0.5})"),
       type == "embedding" || type == "contrastive" ? Json::object() : set(R"({"aux_loss_enabled": true})")},
      {"aux_loss_enabled", true},
      {"gradient_checkpointing", "nothing_saveable"},
      {"lmhead_chunksize", 3},
      {"memory_limit", 1e-6},
      {"offload_optimizer", true},
      {"fp8", "rowwise"},
      {"neftune_noise_alpha", 5.0},
      {"do_train", false, eval},
      {"do_eval", true},
      {"eval_batch_size", 3, eval},
      {"evaluation_steps", 1, set(R"({"do_eval": true})")},
      {"max_evaluation_steps", 1, eval},
      {"per_epoch_evaluation_steps", 1, eval},
      {"early_stopping_patience", 1, together(eval, set(R"({"early_stopping_threshold": 100})"))},
      // Such that the second evaluation is better than the first: a loss of pairs falls.
      {"early_stopping_threshold", 100.0,
       together(judged, Json::object({{"early_stopping_patience", 1},
                                      {"greater_is_better",
                                       learns_from_rewards(type) && type != "online_dpo" && type != "xpo"}}))},
      {"metric_for_best_model", "eval_nonsense", eval},
      {"greater_is_better", !learns_from_rewards(type), together(judged, set(R"({"load_best_model_at_end": true})"))},
      {"load_best_model_at_end", true, together(eval, set(R"({"greater_is_better": true})"))},
      {"save_steps", 1},
      {"save_interval_minutes", 1e-9},
      {"save_total_limit", 1, set(R"({"save_steps": 1})")},
      {"save_optimizer_state", false},
      {"do_last_save", false},
      {"async_save", true},
      {"merge_lora_before_save", false, lora},
      {"resume_from", "latest", set(R"({"resume_if_possible": false, "max_training_steps": 4, "@before":
                                        {"max_training_steps": 2}})")},
      {"resume_if_possible", false, again},
      {"max_length", 5},
      {"shuffle_train_dataset", true},
      {"shuffle_seed_train", 1, set(R"({"shuffle_train_dataset": true})")},
      {"group_by_length", true},
      {"seed", 1, lora},
      {"remove_unused_columns", false},
      {"ids_to_pop_from_dataset", set(R"(["prompt", "label", "query", "image"])")},
      {"dataloader_num_workers", 4},
      {"dataset_num_proc", 3},
      {"use_data_collator", false},
      {"log_steps", 1},
      {"report_steps", 1},
      {"report_metrics", false},
      {"log_grad_norms", false},
      {"use_tensorboard", false},
      {"html_report", false},
      {"performance_mode", true},
      {"progress_bar_type", "json"},
      {"track_memory", 0.5},
      {"profile", "2"},
      {"verbose", false, set(R"({"progress_bar_type": "json"})")},
  };
}

// Of the fields that are the same code for all trainers, and cost more than a step: sft shows what they do.
std::vector<SettingProbe> shared_probes() {
  const Json wandb = set(R"({"report_to": "wandb"})");
  const Json prompts = set(R"({"generation_interval": 2, "generation_max_new_tokens": 4, "generation_prompts":
                             ["w1 w2", "w3"]})");
  const Json data = set(R"({"generation_interval": 2, "generation_max_new_tokens": 4,
                            "generation_use_train_prompts": true})");
  const Json sampled = together(prompts, set(R"({"generation_temperature": 1.5})"));
  return {
      {"report_to", "wandb"},
      {"use_wandb", true},
      {"wandb_entity", "somebody", wandb},
      {"wandb_project", "a project", wandb},
      {"wandb_name", "a run", wandb},
      {"mlflow_tracking_uri", "./mlruns", set(R"({"report_to": "trackio"})")},
      {"push_to_hub", true},  // refused without a token
      {"hub_model_id", "org/name"},
      {"hub_strategy", "end"},
      {"hub_private_repo", true},
      {"hub_always_push", true},
      {"dashboard", 0},
      {"generation_interval", 1, prompts},
      {"generation_prompts", set(R"(["w5"])"), prompts},
      {"generation_use_train_prompts", true, together(prompts, set(R"({"generation_num_prompts": 3})"))},
      {"generation_num_prompts", 1, prompts},
      {"generation_dataset_prompt_field", "other", data},
      {"generation_num_return_sequences", 2, prompts},
      {"generation_max_new_tokens", 2, prompts},
      {"generation_temperature", 3.0, sampled},
      {"generation_top_p", 0.1, sampled},
      {"generation_top_k", 1, sampled},
      {"generation_repetition_penalty", 5.0, prompts},
      {"generation_do_sample", false, sampled},
      {"generation_seed", 7, sampled},
      {"generation_preview_print", false, prompts},
      {"generation_log_to_wandb", false, together(prompts, wandb)},
  };
}

std::vector<SettingProbe> text_probes() {
  return {
      {"dataset_text_field", "other"},
      {"add_special_tokens", false},
      {"train_on_inputs", true},
      {"packing", true},
      {"packing_strategy", "wrapped", set(R"({"packing": true})")},
      {"eval_packing", false, set(R"({"packing": true, "do_eval": true})")},
      {"padding_free", true},
      {"assistant_only_loss", true},
      {"completion_only_loss", false},
      {"dataset_batch_size", 2, set(R"({"packing": true})")},
  };
}

const Json kFollowed = set(R"({"sync_ref_model": true, "ref_model_sync_steps": 1, "@reference": true})");

std::vector<SettingProbe> dpo_probes() {
  return {
      {"beta", 0.5},
      {"label_smoothing", 0.2},
      {"loss_type", "hinge"},
      {"loss_type", set(R"(["sigmoid", "sft"])")},
      {"loss_weights", set("[0.5]")},
      {"f_divergence_type", "js_divergence"},
      {"f_alpha_divergence_coef", 0.3, set(R"({"f_divergence_type": "alpha_divergence"})")},
      {"discopop_tau", 0.5, set(R"({"loss_type": "discopop"})")},
      {"ld_alpha", 0.5, set(R"({"@reference": true})")},
      {"use_weighting", true},
      {"padding_free", true},
      {"reference_free", true},
      {"precompute_ref_log_probs", true},
      {"force_use_ref_model", true, set(R"({"reference_free": true, "@reference": true})")},
      {"sync_ref_model", true, set(R"({"@reference": true})")},
      {"ref_model_mixup_alpha", 0.5, kFollowed},
      {"ref_model_sync_steps", 2, kFollowed},
      {"rpo_alpha", 0.5},
      {"max_prompt_length", 2},
      {"max_completion_length", 2},
      {"label_pad_token_id", 0},
      {"padding_value", 3},
      {"disable_dropout", false},
      {"logprob_vocab_chunk_size", 8},
  };
}

std::vector<SettingProbe> orpo_probes() {
  return {{"beta", 0.5},        {"max_prompt_length", 2},   {"max_completion_length", 2},   {"label_pad_token_id", 0},
          {"padding_value", 3}, {"disable_dropout", false}, {"logprob_vocab_chunk_size", 8}};
}

std::vector<SettingProbe> kto_probes() {
  return {{"beta", 0.5},
          {"desirable_weight", 0.5},
          {"undesirable_weight", 0.5},
          {"loss_type", "apo_zero_unpaired"},
          {"max_prompt_length", 2},
          {"max_completion_length", 2},
          {"label_pad_token_id", 0},
          {"padding_value", 3},
          {"disable_dropout", false},
          {"precompute_ref_log_probs", true},
          {"logprob_vocab_chunk_size", 8}};
}

std::vector<SettingProbe> bco_probes() {
  const Json matching = set(R"({"underlying_distribution_matching": true})");
  return {{"beta", 0.5},
          {"max_prompt_length", 2},
          {"max_completion_length", 2},
          {"label_pad_token_id", 0},
          {"padding_value", 3},
          {"disable_dropout", false},
          {"precompute_ref_log_probs", true},
          {"logprob_vocab_chunk_size", 8},
          {"underlying_distribution_matching", true},
          {"prompt_sample_size", 2, matching},
          {"min_density_ratio", 3.0, matching},
          {"max_density_ratio", 0.5, matching}};
}

std::vector<SettingProbe> cpo_probes() {
  return {{"beta", 0.5},
          {"label_smoothing", 0.2},
          {"loss_type", "hinge"},
          {"cpo_alpha", 0.5},
          {"simpo_gamma", 1.5, set(R"({"loss_type": "simpo"})")},
          {"alpha", 0.1, set(R"({"loss_type": "simpo"})")},
          {"max_prompt_length", 2},
          {"max_completion_length", 2},
          {"label_pad_token_id", 0},
          {"padding_value", 3},
          {"disable_dropout", false},
          {"logprob_vocab_chunk_size", 8}};
}

// Of trainers whose rows the model writes itself.
std::vector<SettingProbe> rollout_probes() {
  return {{"max_prompt_length", 2},
          {"max_completion_length", 3},
          {"num_return_sequences", 3},
          {"temperature", 0.5},
          {"top_p", 0.3},
          {"top_k", 2},
          {"min_p", 0.9},
          {"repetition_penalty", 3.0},
          {"num_iterations", 2},
          {"steps_per_generation", 2},
          {"rewards", "exact"},
          {"reward_weights", set("[0.5]")},
          {"mask_truncated_completions", true},
          {"tools", set(R"([{"name": "add", "command": "cat"}])")},
          {"max_tool_calling_iterations", 2},
          {"log_completions", true},
          {"num_completions_to_print", 1, set(R"({"log_completions": true})")},
          {"disable_dropout", true}};
}

std::vector<SettingProbe> grpo_probes() {
  const Json again = set(R"({"num_iterations": 3, "learning_rate": 0.05})");
  const Json sapo = set(R"({"loss_type": "sapo"})");
  const Json vespo = set(R"({"loss_type": "vespo", "num_iterations": 3, "learning_rate": 0.05})");
  return {{"beta", 0.5},
          {"epsilon", 1e-6, again},
          {"epsilon_high", 1e-6, again},
          {"delta", 0.5},
          // Divides by the tokens of a minibatch, where dapo divides by those of the generation.
          {"loss_type", "bnpo", set(R"({"gradient_accumulation_steps": 2})")},
          {"importance_sampling_level", "sequence", again},
          {"scale_rewards", "none"},
          {"top_entropy_quantile", 0.5},
          {"replay_buffer_size", 2},
          {"use_bias_correction_kl", false},
          {"sapo_temperature_pos", 2.0, sapo},
          {"sapo_temperature_neg", 2.0, sapo},
          {"vespo_k_pos", 1.0, vespo},
          {"vespo_lambda_pos", 1.0, vespo},
          {"vespo_k_neg", 1.0, vespo},
          {"vespo_lambda_neg", 1.0, vespo},
          {"sync_ref_model", true},
          {"ref_model_mixup_alpha", 0.5, kFollowed},
          {"ref_model_sync_steps", 2, kFollowed}};
}

std::vector<SettingProbe> gfpo_probes() {
  std::vector<SettingProbe> probes = grpo_probes();
  // Completions of several lengths, and rewards that do not follow from them.
  const Json filtered = set(R"({"num_remains_in_group": 2, "num_return_sequences": 8, "max_completion_length": 11,
                               "rewards": "random"})");
  for (const SettingProbe& probe : std::vector<SettingProbe>{{"num_remains_in_group", 2},
                                                             {"filter_by_length", false, filtered},
                                                             {"filter_by_efficiency", false, filtered},
                                                             {"length_weight", 5.0, filtered},
                                                             {"efficiency_weight", 5.0, filtered}})
    probes.push_back(probe);
  return probes;
}

std::vector<SettingProbe> rlvr_probes() {
  std::vector<SettingProbe> probes = grpo_probes();
  const Json pattern = set(R"({"format_pattern": "w[0-5]", "format_reward_weight": 1.0})");
  const Json target = set(R"({"length_penalty_target": 2, "length_penalty_weight": 1.0})");
  for (const SettingProbe& probe : std::vector<SettingProbe>{{"answer_key", Json()},
                                                             {"test_key", "checks"},
                                                             {"format_pattern", "w1", pattern},
                                                             {"format_reward_weight", 0.1, pattern},
                                                             {"length_penalty_target", 4, target},
                                                             {"length_penalty_weight", 0.1, target},
                                                             {"reward_clip_range", 0.1},
                                                             {"difficulty_key", "difficulty"},
                                                             {"difficulty_loss_weight", true}})
    probes.push_back(probe);
  return probes;
}

std::vector<SettingProbe> rloo_probes() {
  const Json again = set(R"({"num_iterations": 3, "learning_rate": 0.05})");
  return {{"beta", 0.5},
          {"epsilon", 1e-6, again},
          {"epsilon_high", 1e-6, again},
          {"normalize_advantages", true},
          {"reward_clip_range", set("[0.0, 0.1]")},
          {"sync_ref_model", true},
          {"ref_model_mixup_alpha", 0.5, kFollowed},
          {"ref_model_sync_steps", 2, kFollowed}};
}

std::vector<SettingProbe> online_probes(const std::string& type) {
  std::vector<SettingProbe> probes;
  for (const SettingProbe& probe : rollout_probes()) {
    if (probe.key == "num_return_sequences" || probe.key == "mask_truncated_completions") continue;
    if (probe.key == "tools" || probe.key == "max_tool_calling_iterations") continue;  // they have pairs, not groups
    probes.push_back(probe.key == "disable_dropout" ? SettingProbe{"disable_dropout", false} : probe);
  }
  probes.push_back({"beta", 0.5});
  probes.push_back({"missing_eos_penalty", 2.0, set(R"({"temperature": 3.0, "max_completion_length": 11})")});
  if (type != "nash_md") probes.push_back({"loss_type", "ipo"});
  if (type == "xpo") probes.push_back({"alpha", 0.5});
  if (type == "nash_md") probes.push_back({"mixture_coef", 1.0});
  return probes;
}

std::vector<SettingProbe> reward_probes() { return {{"center_rewards_coefficient", 0.5}, {"disable_dropout", false}}; }

std::vector<SettingProbe> distillation_probes() {
  const Json hidden = set(R"({"hidden_state_loss_weight": 0.5})");
  return {{"temperature", 3.0},
          {"alpha", 0.5},
          {"hidden_state_loss_weight", 0.5},
          {"hidden_state_layers", set("[0]"), hidden},
          {"hidden_state_loss", "cosine", hidden},
          {"attention_loss_weight", 0.5},
          {"attention_layers", set("[0]")},
          {"attention_normalize", true},
          {"logits_chunk_size", 3}};
}

std::vector<SettingProbe> gkd_probes() {
  const Json own = set(R"({"lmbda": 1.0})");
  return {{"temperature", 0.5},       {"lmbda", 1.0, set(R"({"lmbda": null})")},  {"beta", 0.1},
          {"max_new_tokens", 2, own}, {"seq_kd", true, set(R"({"lmbda": 0.0})")}, {"disable_dropout", false},
          {"logits_chunk_size", 3}};
}

std::vector<SettingProbe> written_probes(const std::string& type) {
  std::vector<SettingProbe> probes = {{"max_prompt_length", 2},
                                      {"max_completion_length", 3},
                                      {"num_generations_per_prompt", 2},
                                      {"temperature_sampling", 3.0},
                                      {"top_k", 1},
                                      {"top_p", 0.01},
                                      {"presence_penalty", 2.0},
                                      {"frequency_penalty", 2.0},
                                      {"repetition_penalty", 5.0}};
  if (type == "seq_kd") return probes;
  for (const SettingProbe& probe : {SettingProbe{"temperature", 1.0}, {"alpha", 0.5}, {"logits_chunk_size", 3}})
    probes.push_back(probe);
  if (type == "on_policy_distillation") probes.push_back({"generate_with_teacher", true});
  if (type == "sparse_distillation") probes.push_back({"top_k_teacher", 3});
  return probes;
}

std::vector<SettingProbe> classification_probes() {
  return {{"dataset_text_field", "other"},
          {"add_special_tokens", false},
          {"label_field", "kind"},
          {"image_field", "photo"},
          {"num_labels", 3},
          {"problem_type", "multi_label_classification"}};
}

std::vector<SettingProbe> ppo_probes() {
  const Json again = set(R"({"num_ppo_epochs": 3, "learning_rate": 0.05})");
  std::vector<SettingProbe> probes = {{"num_ppo_epochs", 2},
                                      {"num_mini_batches", 2},
                                      {"kl_coef", 0.5},
                                      {"kl_estimator", "k3"},
                                      {"cliprange", 1e-6, again},
                                      {"cliprange_value", 1e-6, again},
                                      {"vf_coef", 0.5},
                                      {"gamma", 0.5},
                                      {"lam", 0.5},
                                      {"whiten_rewards", true},
                                      {"whiten_advantages", false},
                                      {"entropy_coef", 0.5},
                                      {"missing_eos_penalty", 0.5}};
  for (const SettingProbe& probe : rollout_probes()) {
    if (probe.key != "num_iterations" && probe.key != "steps_per_generation") probes.push_back(probe);
  }
  return probes;
}

std::vector<SettingProbe> prm_probes() {
  return {{"step_separator", "w9 w8"},
          {"max_completion_length", 3},
          {"train_on_last_step_only", true},
          {"disable_dropout", false}};
}

std::vector<SettingProbe> embedding_probes() {
  const Json negative = set(R"({"negative_field": "negative"})");
  return {{"loss_type", "triplet", negative},
          {"temperature", 0.5},
          {"margin", 1.5, set(R"({"negative_field": "negative", "loss_type": "triplet"})")},
          {"query_field", "other"},
          {"positive_field", "other"},
          {"negative_field", "negative"},
          {"matryoshka_dims", set("[2, 8]")},
          {"normalize_embeddings", false},
          {"pooling_strategy", "max"}};
}

std::vector<SettingProbe> own_probes(const std::string& type) {
  if (type == "dpo") return dpo_probes();
  if (type == "kto") return kto_probes();
  if (type == "bco") return bco_probes();
  if (type == "cpo") return cpo_probes();
  if (type == "orpo") return orpo_probes();
  if (type == "ppo") return ppo_probes();
  if (type == "prm") return prm_probes();
  if (prefers_own_samples(type)) return online_probes(type);
  if (learns_from_rewards(type)) {
    std::vector<SettingProbe> probes = rollout_probes();
    for (const SettingProbe& probe : type == "rloo"   ? rloo_probes()
                                     : type == "gfpo" ? gfpo_probes()
                                     : type == "rlvr" ? rlvr_probes()
                                                      : grpo_probes())
      probes.push_back(probe);
    return probes;
  }
  if (type == "gkd") return gkd_probes();
  if (distils_what_is_written(type)) return written_probes(type);
  if (type == "reward") return reward_probes();
  if (type == "classification") return classification_probes();
  if (type == "embedding") return embedding_probes();
  if (type == "contrastive") return {{"dataset_text_field", "other"}, {"image_field", "kind"}};
  std::vector<SettingProbe> probes = text_probes();
  if (type == "distillation") {
    for (const SettingProbe& probe : distillation_probes()) probes.push_back(probe);
  } else {
    probes.push_back({"loss_type", "dft"});
    probes.push_back({"freeze_vision_tower", false});
    probes.push_back({"mask_image_tokens", false});
  }
  return probes;
}

std::vector<std::string> keys_of(const std::string& type) {
  TrainingArguments arguments;
  return testing_support::keys_of([&](FieldVisitor& v) { list_fields(arguments, type, v); });
}

class Settings : public testing::TestWithParam<std::string> {};

TEST_P(Settings, ActOrAreRefusedByName) {
  std::vector<SettingProbe> probes = common_probes(GetParam());
  for (const SettingProbe& probe : own_probes(GetParam())) probes.push_back(probe);
  // Classification and embedding truncate as transformers does; a reward's rows are left out.
  const bool keeps_start =
      GetParam() == "classification" || GetParam() == "embedding" || GetParam() == "contrastive" || GetParam() == "prm";
  probes.push_back({"truncation_mode", keeps_start ? "keep_end" : "keep_start",
                    GetParam() == "reward" ? Json::object()
                    : learns_from_rewards(GetParam()) || distils_what_is_written(GetParam())
                        ? set(R"({"max_prompt_length": 2})")
                    : GetParam() == "prm" ? set(R"({"max_length": 10})")
                    : GetParam() == "gkd" ? set(R"({"max_length": 8, "lmbda": 0.0})")
                                          : set(R"({"max_length": 5})")});
  // Two seconds, once: the loop is the same for all.
  if (GetParam() == "sft") probes.push_back({"training_time_limit", "1s", set(R"({"@slow": 0.6})")});
  if (GetParam() != "sft") probes.push_back({"training_time_limit", "soon"});
  std::vector<std::string> keys = keys_of(GetParam());
  if (GetParam() == "sft") {
    for (const SettingProbe& probe : shared_probes()) probes.push_back(probe);
  } else {
    std::erase_if(keys, [](const std::string& key) {
      for (const SettingProbe& probe : shared_probes()) {
        if (probe.key == key) return true;
      }
      return false;
    });
  }
  expect_every_setting_acts(keys, probes, [](const Json& settings) { return observe_run(GetParam(), settings); });
}

INSTANTIATE_TEST_SUITE_P(Trainers, Settings, testing::ValuesIn(trainer_types()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace easydel
