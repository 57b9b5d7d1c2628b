// The rewards that need nothing but the completion and its row.
#pragma once

#include <memory>

#include "easydel/trainers/rewards/reward.h"
#include "easydel/trainers/rewards/reward_settings.h"

namespace easydel {

// Null for a type that is none of them.
std::unique_ptr<Reward> make_builtin_reward(RewardSettings& settings);
std::unique_ptr<Reward> make_command_reward(RewardSettings& settings);
std::unique_ptr<Reward> make_http_reward(RewardSettings& settings);
std::unique_ptr<Reward> make_library_reward(RewardSettings& settings);
std::unique_ptr<Reward> make_model_reward(std::shared_ptr<const BaseModule> model);

// The number in the last \boxed{…} of a text, else its last number; thousands may be set apart by commas.
std::optional<double> number_in_answer(const std::string& text);
// What a program or a server is told of a completion, and what it may answer: a number, or null.
Json to_reward_request(const RewardInput& input);
std::optional<double> score_of(const Json& answer, const std::string& where);

}  // namespace easydel
