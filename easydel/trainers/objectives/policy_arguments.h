// The arguments of trainers whose rows the model writes itself: EasyDeL's keys, and trl's where EasyDeL has none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/trainers/objectives/reference/reference_sync.h"

namespace easydel {

class FieldVisitor;

// How completions are drawn and rewarded, and how often they are trained on.
struct RolloutArguments {
  std::optional<int64_t> max_prompt_length = 512;
  int64_t max_completion_length = 256;
  int64_t num_return_sequences = 4;  // completions of a prompt: its group
  double temperature = 1.0;
  double top_p = 1.0;
  std::optional<int64_t> top_k;  // all tokens
  std::optional<double> min_p;
  double repetition_penalty = 1.0;
  double presence_penalty = 0.0;     // taken from the score of a token that the completion has
  double frequency_penalty = 0.0;    // likewise, for each time that it has it
  int64_t num_iterations = 1;        // times that each completion is trained on
  int64_t steps_per_generation = 1;  // optimizer steps that share one generation, of as many batches of prompts
  Json rewards;                      // a reward or a list of them; see rewards/reward.h
  std::optional<std::vector<double>> reward_weights;  // 1 each
  bool mask_truncated_completions = false;
  bool log_completions = false;          // to completions.jsonl, and some to the terminal
  int64_t num_completions_to_print = 2;  // of a generation
  bool disable_dropout = false;
  Json tools;                                          // programs that the policy may call; see tools/tool_box.h
  std::optional<int64_t> max_tool_calling_iterations;  // no limit

  int64_t steps_of_generation() const { return steps_per_generation * num_iterations; }
};

struct GrpoArguments {
  double beta = 0.04;  // weight of the divergence from the reference; 0: there is none
  double epsilon = 0.2;
  std::optional<double> epsilon_high;  // epsilon
  std::optional<double> delta;         // the most that a ratio counts; no limit
  std::string loss_type = "dapo";
  std::string importance_sampling_level = "token";  // or sequence
  Json scale_rewards = "group";                     // or batch, none; true and false are group and none
  double top_entropy_quantile = 1.0;
  int64_t replay_buffer_size = 0;  // groups that are kept for those whose rewards are all the same; 0: none
  bool use_bias_correction_kl = true;
  double sapo_temperature_pos = 1.0;
  double sapo_temperature_neg = 1.05;
  double vespo_k_pos = 2.0, vespo_lambda_pos = 3.0, vespo_k_neg = 3.0, vespo_lambda_neg = 2.0;
  ReferenceSync sync;

  std::string scaling() const;  // group, batch or none
};

struct RlooArguments {
  double beta = 0.05;  // of the divergence, which lowers the reward
  double epsilon = 0.2;
  std::optional<double> epsilon_high;  // epsilon
  bool normalize_advantages = false;
  std::optional<std::vector<double>> reward_clip_range;  // the least and the most that a reward counts
  ReferenceSync sync;
};

// online_dpo, xpo and nash_md.
struct OnlineArguments {
  double beta = 0.1;                          // how strongly the policy is kept close to the reference
  std::string loss_type = "sigmoid";          // or ipo; not of nash_md
  std::optional<double> missing_eos_penalty;  // taken from the reward of a completion that did not end
  double alpha = 1e-5;                        // xpo: weight of the log-probability of the reference's completions
  double mixture_coef = 0.5;                  // nash_md: share of the reference in the mixture
};

// Filtered groups: more completions are drawn than trained on.
struct GfpoArguments {
  std::optional<int64_t> num_remains_in_group;  // completions of a group that are trained on; all
  bool filter_by_length = true;                 // short ones stay
  bool filter_by_efficiency = true;             // those with much reward for each token stay
  double length_weight = 0.5;
  double efficiency_weight = 0.5;
};

// Rewards by rules that can be checked, from the keys that EasyDeL has for them.
struct RlvrArguments {
  std::optional<std::string> answer_key = "answer";  // column with the number that is right; none
  std::string test_key = "tests";
  std::optional<std::string> format_pattern;  // found in a completion
  double format_reward_weight = 0.0;
  std::optional<int64_t> length_penalty_target;  // tokens
  double length_penalty_weight = 0.0;
  std::optional<double> reward_clip_range;  // the most that a reward counts, and its opposite the least
  std::optional<std::string> difficulty_key;
  bool difficulty_loss_weight = false;

  // Those, followed by `others`.
  Json rewards(const Json& others) const;
};

// grpo, gfpo, rlvr, rloo, ppo, online_dpo, xpo and nash_md.
bool learns_from_rewards(std::string_view trainer_type);
// The last three of them: two completions of each prompt, of which the rewards prefer one.
bool prefers_own_samples(std::string_view trainer_type);

void list_fields(RolloutArguments& rollout, FieldVisitor& v);
// Those that do not depend on the size of a group.
void list_sampling_fields(RolloutArguments& rollout, FieldVisitor& v);
// Of them those that do not say how often a generation is trained on, and those of groups.
void list_drawing_fields(RolloutArguments& rollout, FieldVisitor& v);
void list_group_fields(RolloutArguments& rollout, FieldVisitor& v);
// Of distillation on what is written during the run.
void list_penalty_fields(RolloutArguments& rollout, FieldVisitor& v);
void list_fields(OnlineArguments& online, std::string_view trainer_type, FieldVisitor& v);
void list_fields(GrpoArguments& grpo, FieldVisitor& v);
void list_fields(GfpoArguments& gfpo, FieldVisitor& v);
void list_fields(RlvrArguments& rlvr, FieldVisitor& v);
void list_fields(RlooArguments& rloo, FieldVisitor& v);

}  // namespace easydel
