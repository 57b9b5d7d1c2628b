#include "easydel/trainers/objectives/policy_arguments.h"

#include "easydel/infra/fields/field_visitor.h"

namespace easydel {

bool learns_from_rewards(std::string_view type) {
  return type == "grpo" || type == "gfpo" || type == "rlvr" || type == "rloo" || type == "ppo" ||
         prefers_own_samples(type);
}

bool prefers_own_samples(std::string_view type) { return type == "online_dpo" || type == "xpo" || type == "nash_md"; }

Json RlvrArguments::rewards(const Json& others) const {
  Json all = Json::array();
  if (answer_key) all.push_back(Json::object({{"type", "numeric"}, {"field", *answer_key}}));
  if (format_pattern)
    all.push_back(Json::object({{"type", "regex"}, {"pattern", *format_pattern}, {"weight", format_reward_weight}}));
  if (length_penalty_target)
    all.push_back(
        Json::object({{"type", "length"}, {"target", *length_penalty_target}, {"weight", length_penalty_weight}}));
  if (others.is_array()) {
    for (const Json& each : others.as_array()) all.push_back(each);
  } else if (!others.is_null()) {
    all.push_back(others);
  }
  return all;
}

std::string GrpoArguments::scaling() const {
  if (scale_rewards.is_bool()) return scale_rewards.as_bool() ? "group" : "none";
  return scale_rewards.is_string() ? scale_rewards.as_string() : scale_rewards.dump();
}

void list_drawing_fields(RolloutArguments& r, FieldVisitor& v) {
  v("max_prompt_length", r.max_prompt_length, "Maximum number of prompt tokens; null: no limit.");
  v("max_completion_length", r.max_completion_length, "Maximum number of tokens per completion.");
  v("temperature", r.temperature, "Temperature of sampling and of the log-probabilities in the loss.");
  v("top_p", r.top_p, "Sample from the smallest set of most likely tokens with this total probability.");
  v("top_k", r.top_k, "Sample from this many most likely tokens; null or 0: all.");
  v("min_p", r.min_p, "Sample from tokens with at least this fraction of the highest probability; null: all.");
  v("repetition_penalty", r.repetition_penalty, "Repetition penalty; 1: none.");
  v("rewards", r.rewards, "A reward, or a list: names, or objects with a type, its settings and a weight.");
  v("reward_weights", r.reward_weights, "Weights of the rewards; null: 1 each.");
  v("log_completions", r.log_completions, "Write completions.jsonl, and print some of them.");
  v("num_completions_to_print", r.num_completions_to_print, "Number of completions to print per generation.");
  v("disable_dropout", r.disable_dropout, "Train without dropout.");
}

void list_penalty_fields(RolloutArguments& r, FieldVisitor& v) {
  v("presence_penalty", r.presence_penalty, "Subtracted from the scores of tokens that occur in the completion.");
  v("frequency_penalty", r.frequency_penalty,
    "Subtracted from a token's score for each time it occurs in the completion.");
  v("repetition_penalty", r.repetition_penalty, "Repetition penalty; 1: none.");
}

void list_sampling_fields(RolloutArguments& r, FieldVisitor& v) {
  list_drawing_fields(r, v);
  v("num_iterations", r.num_iterations, "Number of times each completion is trained on.");
  v("steps_per_generation", r.steps_per_generation, "Optimizer steps whose completions are generated together.");
}

void list_fields(RolloutArguments& r, FieldVisitor& v) {
  list_sampling_fields(r, v);
  list_group_fields(r, v);
}

void list_group_fields(RolloutArguments& r, FieldVisitor& v) {
  v("num_return_sequences", r.num_return_sequences, "Completions per prompt.", {"num_generations"});
  v("mask_truncated_completions", r.mask_truncated_completions, "Exclude truncated completions from the loss.",
    {"max_len_mask"});
  v("tools", r.tools, "Programs that the model may call: objects with name, command, description and parameters.");
  v("max_tool_calling_iterations", r.max_tool_calling_iterations,
    "Maximum number of rounds of tool calls per completion; null: no limit.");
}

void list_fields(OnlineArguments& o, std::string_view type, FieldVisitor& v) {
  v("beta", o.beta, "How strongly the policy is kept close to the reference.");
  v("missing_eos_penalty", o.missing_eos_penalty,
    "Subtracted from the reward of a completion without an end token; null: nothing.");
  if (type != "nash_md") v("loss_type", o.loss_type, "sigmoid or ipo.");
  if (type == "xpo") v("alpha", o.alpha, "Weight of the log-probability of the reference's completions.");
  if (type == "nash_md")
    v("mixture_coef", o.mixture_coef, "Weight of the reference model in the mixture; 0: only the policy.");
}

void list_fields(GrpoArguments& g, FieldVisitor& v) {
  v("beta", g.beta, "Weight of the KL divergence from the reference model; 0: no reference model.");
  v("epsilon", g.epsilon, "Lower clip range: ratios are clipped at 1 - epsilon.");
  v("epsilon_high", g.epsilon_high,
    "Upper clip range: ratios are clipped at 1 + epsilon_high, with cispo at epsilon_high; null: epsilon.");
  v("delta", g.delta, "Upper bound of ratios for negative advantages (two-sided clipping); null: none.");
  v("loss_type", g.loss_type, "grpo, bnpo, dr_grpo, dapo, luspo, cispo, sapo or vespo.");
  v("importance_sampling_level", g.importance_sampling_level, "token, or sequence: GSPO.");
  v("scale_rewards", g.scale_rewards,
    "Divide advantages by the standard deviation of the group or batch; none: do not.");
  v("top_entropy_quantile", g.top_entropy_quantile,
    "Fraction of tokens, those with the highest entropy, in the policy loss.");
  v("replay_buffer_size", g.replay_buffer_size,
    "Number of groups kept for replay in place of groups whose rewards are all the same; 0: none.");
  v("use_bias_correction_kl", g.use_bias_correction_kl, "Multiply the KL divergence by the importance ratio.");
  v("sapo_temperature_pos", g.sapo_temperature_pos, "Temperature of sapo for positive advantages.");
  v("sapo_temperature_neg", g.sapo_temperature_neg, "Temperature of sapo for other advantages.");
  v("vespo_k_pos", g.vespo_k_pos, "Exponent of vespo's weight for non-negative advantages.");
  v("vespo_lambda_pos", g.vespo_lambda_pos, "Decay of it.");
  v("vespo_k_neg", g.vespo_k_neg, "Exponent of vespo's weight for negative advantages.");
  v("vespo_lambda_neg", g.vespo_lambda_neg, "Decay of it.");
  list_fields(g.sync, v);
}

void list_fields(GfpoArguments& g, FieldVisitor& v) {
  v("num_remains_in_group", g.num_remains_in_group, "Completions of a group that are trained on; null: all.");
  v("filter_by_length", g.filter_by_length, "Keep short completions.");
  v("filter_by_efficiency", g.filter_by_efficiency, "Keep completions with a high reward per token.");
  v("length_weight", g.length_weight, "Weight of filter_by_length.");
  v("efficiency_weight", g.efficiency_weight, "Weight of filter_by_efficiency.");
}

void list_fields(RlvrArguments& r, FieldVisitor& v) {
  v("answer_key", r.answer_key, "Column with the correct number, for the reward numeric; null: no such reward.");
  v("test_key", r.test_key, "Column with tests of code; not supported.");
  v("format_pattern", r.format_pattern, "Pattern to find in a completion, for the reward regex; null: none.");
  v("format_reward_weight", r.format_reward_weight, "Weight of that reward.");
  v("length_penalty_target", r.length_penalty_target,
    "Target length of a completion in tokens, for the reward length; null: any.");
  v("length_penalty_weight", r.length_penalty_weight, "Weight of that reward.");
  v("reward_clip_range", r.reward_clip_range, "Clip rewards to this magnitude; null: no clipping.");
  v("difficulty_key", r.difficulty_key, "Column with the difficulty of a prompt; not supported.");
  v("difficulty_loss_weight", r.difficulty_loss_weight, "Weight losses by the difficulty; not supported.");
}

void list_fields(RlooArguments& r, FieldVisitor& v) {
  v("beta", r.beta, "Coefficient of the KL penalty in the reward; 0: no reference model.");
  v("epsilon", r.epsilon, "Lower clip range: the ratio of a completion is clipped at 1 - epsilon.");
  v("epsilon_high", r.epsilon_high, "Upper clip range: it is clipped at 1 + epsilon_high; null: epsilon.");
  v("normalize_advantages", r.normalize_advantages, "Normalize advantages to mean 0 and standard deviation 1.");
  v("reward_clip_range", r.reward_clip_range, "Clip rewards to this range; null: no clipping.");
  list_fields(r.sync, v);
}

}  // namespace easydel
