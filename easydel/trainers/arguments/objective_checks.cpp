// Validation of the arguments that belong to one trainer.
#include <cmath>

#include "easydel/trainers/arguments/argument_checker.h"

namespace easydel {
namespace {

template <class Preference>
void check_preference(const Preference& p, const ArgumentChecker& c) {
  c.positive("beta", p.beta);
  c.at_least("max_prompt_length", p.max_prompt_length, 1);
  c.at_least("max_completion_length", p.max_completion_length, 1);
  c.only(p.logprob_vocab_chunk_size.value_or(0) <= 0, "logprob_vocab_chunk_size", "be null or 0",
         p.logprob_vocab_chunk_size.value_or(0),
         "Logits are computed in chunks of tokens, not of the vocabulary: set lmhead_chunksize.");
  c.only(p.label_pad_token_id == -100, "label_pad_token_id", "be -100", p.label_pad_token_id,
         "No other label is ignored in the loss.");
  c.at_least("padding_value", p.padding_value, 0);
}

void check_dpo_losses(const DpoArguments& d, const ArgumentChecker& c) {
  bool has_names = d.loss_type.is_string() || (d.loss_type.is_array() && d.loss_type.size() > 0);
  if (d.loss_type.is_array()) {
    for (const Json& name : d.loss_type.as_array()) has_names = has_names && name.is_string();
  }
  c.rule(has_names, "loss_type", "be a name or a list of names", d.loss_type.dump());
  const std::vector<std::string> types = d.loss_types();
  for (const std::string& type : types) {
    c.one_of("loss_type", type,
             {"sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot", "aot_pair",
              "aot_unpaired", "apo_zero", "apo_down", "discopop", "sigmoid_norm", "sft"});
  }
  if (d.loss_weights) {
    c.rule(d.loss_weights->size() == types.size(), "loss_weights",
           concat("have a weight for each of the ", types.size(), " losses"), d.loss_weights->size());
    for (const double weight : *d.loss_weights) c.finite_from_zero("loss_weights", weight);
  }
  c.one_of("f_divergence_type", d.f_divergence_type, {"reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"});
  c.rule(std::isfinite(d.f_alpha_divergence_coef), "f_alpha_divergence_coef", "be a finite number",
         d.f_alpha_divergence_coef);
  c.positive("discopop_tau", d.discopop_tau);
  c.between("ld_alpha", d.ld_alpha, 0, 1, "lie in [0, 1]");
  c.rule(!d.ld_alpha || !d.precompute_ref_log_probs, "ld_alpha", "not be used together with precompute_ref_log_probs",
         d.ld_alpha.value_or(0));
}

// What the policy is compared with must be a model, and run in each step.
void check_dpo_sync(const DpoArguments& d, const ArgumentChecker& c) {
  check(d.sync, c);
  if (!d.sync.sync_ref_model) return;
  c.rule(d.uses_reference(), "sync_ref_model", "be false if reference_free is true", "true");
  c.rule(!d.precompute_ref_log_probs, "sync_ref_model", "be false if precompute_ref_log_probs is true", "true");
}

void check_bco(const BcoArguments& b, const ArgumentChecker& c) {
  check_preference(b, c);
  c.only(!b.precompute_ref_log_probs, "precompute_ref_log_probs", "be false with bco", "true",
         "The reference model is evaluated in each step.");
  c.at_least("prompt_sample_size", b.prompt_sample_size, 1);
  c.positive("min_density_ratio", b.min_density_ratio);
  c.rule(b.max_density_ratio >= b.min_density_ratio && std::isfinite(b.max_density_ratio), "max_density_ratio",
         concat("be a finite number not below min_density_ratio, which is ", b.min_density_ratio), b.max_density_ratio);
  if (b.underlying_distribution_matching) return;
  const BcoArguments standard;
  constexpr std::string_view kNoMatching = "be used together with underlying_distribution_matching";
  c.rule(b.prompt_sample_size == standard.prompt_sample_size, "prompt_sample_size", kNoMatching, b.prompt_sample_size);
  c.rule(b.min_density_ratio == standard.min_density_ratio, "min_density_ratio", kNoMatching, b.min_density_ratio);
  c.rule(b.max_density_ratio == standard.max_density_ratio, "max_density_ratio", kNoMatching, b.max_density_ratio);
}

void check_kto_and_cpo(const TrainingArguments& a, const ArgumentChecker& c) {
  check_preference(a.kto, c);
  check_preference(a.cpo, c);
  c.one_of("loss_type", a.kto.loss_type, {"kto", "apo_zero_unpaired"});
  c.finite_from_zero("desirable_weight", a.kto.desirable_weight);
  c.finite_from_zero("undesirable_weight", a.kto.undesirable_weight);
  c.only(!a.kto.precompute_ref_log_probs, "precompute_ref_log_probs", "be false with kto", "true",
         "The reference model is evaluated in each step.");
  c.one_of("loss_type", a.cpo.loss_type, {"sigmoid", "hinge", "ipo", "simpo", "alphapo"});
  c.rule(a.cpo.label_smoothing >= 0 && a.cpo.label_smoothing < 0.5, "label_smoothing", "lie in [0, 0.5)",
         a.cpo.label_smoothing);
  c.finite_from_zero("cpo_alpha", a.cpo.cpo_alpha);
  c.rule(std::isfinite(a.cpo.simpo_gamma), "simpo_gamma", "be a finite number", a.cpo.simpo_gamma);
  c.rule(std::isfinite(a.cpo.alpha), "alpha", "be a finite number", a.cpo.alpha);
}

void check_rollouts(const RolloutArguments& r, const ArgumentChecker& c) {
  c.at_least("max_prompt_length", r.max_prompt_length, 1);
  c.at_least("max_completion_length", r.max_completion_length, 1);
  c.at_least("num_return_sequences", r.num_return_sequences, 1);
  c.positive("temperature", r.temperature);
  c.rule(r.top_p > 0 && r.top_p <= 1, "top_p", "lie in (0, 1]", r.top_p);
  c.at_least("top_k", r.top_k, 0);
  c.between("min_p", r.min_p, 0, 1, "lie in [0, 1]");
  c.positive("repetition_penalty", r.repetition_penalty);
  c.at_least("num_iterations", r.num_iterations, 1);
  c.at_least("steps_per_generation", r.steps_per_generation, 1);
  c.at_least("max_tool_calling_iterations", r.max_tool_calling_iterations, 1);
  c.rule(!r.max_tool_calling_iterations || !r.tools.is_null(), "max_tool_calling_iterations",
         "be used together with tools", r.max_tool_calling_iterations.value_or(0));
  c.at_least("num_completions_to_print", r.num_completions_to_print, 0);
  if (r.reward_weights) {
    for (const double weight : *r.reward_weights)
      c.rule(std::isfinite(weight), "reward_weights", "be finite numbers", weight);
  }
}

void check_ppo(const PpoArguments& p, const ArgumentChecker& c) {
  c.finite_from_zero("kl_coef", p.kl_coef);
  c.one_of("kl_estimator", p.kl_estimator, {"k1", "k3"});
  c.positive("cliprange", p.cliprange);
  c.positive("cliprange_value", p.cliprange_value);
  c.finite_from_zero("vf_coef", p.vf_coef);
  c.between("gamma", p.gamma, 0, 1, "lie in [0, 1]");
  c.between("lam", p.lam, 0, 1, "lie in [0, 1]");
  c.finite_from_zero("entropy_coef", p.entropy_coef);
  c.finite_from_zero("missing_eos_penalty", p.missing_eos_penalty);
}

void check_filter(const GfpoArguments& g, int64_t group, const ArgumentChecker& c) {
  c.rule(!g.num_remains_in_group || (*g.num_remains_in_group >= 2 && *g.num_remains_in_group < group),
         "num_remains_in_group", concat("be at least 2 and below num_return_sequences, which is ", group),
         g.num_remains_in_group.value_or(0));
  c.rule(g.filter_by_length || g.filter_by_efficiency, "filter_by_length",
         "be true if filter_by_efficiency is false: completions must be ranked by something", "false");
  c.finite_from_zero("length_weight", g.length_weight);
  c.finite_from_zero("efficiency_weight", g.efficiency_weight);
}

void check_verifiers(const RlvrArguments& r, const ArgumentChecker& c) {
  const RlvrArguments standard;
  c.name("answer_key", r.answer_key);
  c.only(r.test_key == standard.test_key, "test_key", "not be given", r.test_key,
         "Code is not run here: use the reward command.");
  c.finite_from_zero("format_reward_weight", r.format_reward_weight);
  c.rule(r.format_pattern.has_value() == (r.format_reward_weight > 0), "format_pattern",
         concat("be given together with a format_reward_weight above 0, which is ", r.format_reward_weight),
         r.format_pattern.value_or("none"));
  c.at_least("length_penalty_target", r.length_penalty_target, 1);
  c.finite_from_zero("length_penalty_weight", r.length_penalty_weight);
  c.rule(r.length_penalty_target.has_value() == (r.length_penalty_weight > 0), "length_penalty_target",
         concat("be given together with a length_penalty_weight above 0, which is ", r.length_penalty_weight),
         r.length_penalty_target ? concat(*r.length_penalty_target) : "none");
  c.positive("reward_clip_range", r.reward_clip_range);
  constexpr std::string_view kNoDifficulty = "Losses are not weighted by the difficulty of a prompt.";
  c.only(!r.difficulty_key, "difficulty_key", "be null", r.difficulty_key.value_or(""), kNoDifficulty);
  c.only(!r.difficulty_loss_weight, "difficulty_loss_weight", "be false", "true", kNoDifficulty);
}

void check_policies(const TrainingArguments& a, const ArgumentChecker& c) {
  check_rollouts(a.rollout, c);
  check_verifiers(a.rlvr, c);
  check_ppo(a.ppo, c);
  check_filter(a.gfpo, a.rollout.num_return_sequences, c);
  const GrpoArguments& g = a.grpo;
  c.finite_from_zero("beta", g.beta);
  c.finite_from_zero("epsilon", g.epsilon);
  c.finite_from_zero("epsilon_high", g.epsilon_high);
  c.positive("delta", g.delta);
  c.one_of("loss_type", g.loss_type, {"grpo", "bnpo", "dr_grpo", "dapo", "luspo", "cispo", "sapo", "vespo"});
  c.one_of("importance_sampling_level", g.importance_sampling_level, {"token", "sequence"});
  c.one_of("scale_rewards", g.scaling(), {"group", "batch", "none"});
  c.rule(g.top_entropy_quantile > 0 && g.top_entropy_quantile <= 1, "top_entropy_quantile", "lie in (0, 1]",
         g.top_entropy_quantile);
  c.at_least("replay_buffer_size", g.replay_buffer_size, 0);
  c.positive("sapo_temperature_pos", g.sapo_temperature_pos);
  c.positive("sapo_temperature_neg", g.sapo_temperature_neg);
  for (const auto& [key, value] : {std::pair{"vespo_k_pos", g.vespo_k_pos},
                                   {"vespo_lambda_pos", g.vespo_lambda_pos},
                                   {"vespo_k_neg", g.vespo_k_neg},
                                   {"vespo_lambda_neg", g.vespo_lambda_neg}})
    c.finite_from_zero(key, value);
  check(g.sync, c);
  c.rule(!g.sync.sync_ref_model || g.beta != 0, "sync_ref_model", "be false if beta is 0: there is no reference",
         "true");
  check(a.rloo.sync, c);
  c.rule(!a.rloo.sync.sync_ref_model || a.rloo.beta != 0, "sync_ref_model",
         "be false if beta is 0: there is no reference", "true");
  c.finite_from_zero("beta", a.rloo.beta);
  c.finite_from_zero("epsilon", a.rloo.epsilon);
  c.finite_from_zero("epsilon_high", a.rloo.epsilon_high);
  c.positive("beta", a.online.beta);
  c.one_of("loss_type", a.online.loss_type, {"sigmoid", "ipo"});
  c.finite_from_zero("missing_eos_penalty", a.online.missing_eos_penalty);
  c.finite_from_zero("alpha", a.online.alpha);
  c.between("mixture_coef", a.online.mixture_coef, 0, 1, "lie in [0, 1]");
  if (const auto& range = a.rloo.reward_clip_range)
    c.rule(range->size() == 2 && (*range)[0] <= (*range)[1], "reward_clip_range", "be two numbers, the lower one first",
           range->size() == 2 ? concat((*range)[0], " and ", (*range)[1]) : concat(range->size(), " numbers"));
}

}  // namespace

void check_objectives(const TrainingArguments& a, const ArgumentChecker& c) {
  check_preference(a.dpo, c);
  check_preference(a.orpo, c);
  check_dpo_losses(a.dpo, c);
  check_kto_and_cpo(a, c);
  check_bco(a.bco, c);
  check_policies(a, c);
  c.one_of("loss_type", a.text.loss_type, {"nll", "dft"});
  c.rule(a.dpo.label_smoothing >= 0 && a.dpo.label_smoothing < 0.5, "label_smoothing", "lie in [0, 0.5)",
         a.dpo.label_smoothing);
  for (const std::string& type : a.dpo.use_weighting ? a.dpo.loss_types() : std::vector<std::string>()) {
    c.rule(type != "sft" && !type.starts_with("aot"), "use_weighting",
           concat("be false with loss_type ", type, ", whose terms are not of one pair each"), "true");
  }
  check_dpo_sync(a.dpo, c);
  c.finite_from_zero("rpo_alpha", a.dpo.rpo_alpha);
  c.finite_from_zero("center_rewards_coefficient", a.reward.center_rewards_coefficient);
  const DistillationArguments& d = a.distillation;
  c.positive("temperature", d.temperature);
  c.between("alpha", d.alpha, 0, 1, "lie in [0, 1]");
  c.finite_from_zero("hidden_state_loss_weight", d.hidden_state_loss_weight);
  c.one_of("hidden_state_loss", d.hidden_state_loss, {"mse"});
  constexpr std::string_view kNoMaps = "Attention maps are not compared yet; hidden_state_loss_weight compares layers.";
  c.only(d.attention_loss_weight.value_or(0) == 0, "attention_loss_weight", "be null or 0",
         d.attention_loss_weight.value_or(0), kNoMaps);
  c.only(!d.attention_layers, "attention_layers", "be null", "a list", kNoMaps);
  c.only(!d.attention_normalize, "attention_normalize", "be false", "true", kNoMaps);
  c.at_least("logits_chunk_size", d.logits_chunk_size, 1);
  const GkdArguments& g = a.gkd;
  c.positive("temperature", g.temperature);
  c.between("lmbda", g.lmbda, 0, 1, "lie in [0, 1]");
  c.rule(g.beta >= 0 && g.beta <= 1, "beta", "lie in [0, 1]", g.beta);
  c.at_least("max_new_tokens", g.max_new_tokens, 1);
  c.at_least("logits_chunk_size", g.logits_chunk_size, 1);
  check_written(a.written, c);
  c.name("step_separator", a.prm.step_separator);
  c.at_least("max_completion_length", a.prm.max_completion_length, 1);
  c.name("label_field", a.classification.label_field);
  c.name("image_field", a.classification.image_field);
  c.at_least("num_labels", a.classification.num_labels, 1);
  if (a.classification.problem_type) {
    c.one_of("problem_type", *a.classification.problem_type,
             {"regression", "single_label_classification", "multi_label_classification"});
  }
}

}  // namespace easydel
