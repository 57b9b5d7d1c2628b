#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/infra/base_module.h"
#include "easydel/trainers/rewards/builtin_rewards.h"

namespace easydel {
namespace {

// The number of a sequence classifier for prompt and completion.
class ModelReward final : public Reward {
 public:
  explicit ModelReward(std::shared_ptr<const BaseModule> model) : model_(std::move(model)) {
    require<ConfigError>(model_ != nullptr,
                         "[rewards] reward_model needs a model: --reward-model, or the section "
                         "reward_model.");
    require<ConfigError>(model_->model_task() == TaskType::SequenceClassification,
                         "[rewards] a reward model is a sequence classifier; got ", model_->type_name(), ".");
  }
  std::string name() const override { return "reward_model"; }

  RewardScores score(const std::vector<RewardInput>& inputs) override {
    const at::NoGradGuard no_grad;
    RewardScores scores;
    for (const RewardInput& input : inputs) {
      ModelInputs row;
      row.input_ids = at::tensor(input.ids, at::kLong).to(model_->options().device).unsqueeze(0);
      const at::Tensor logits = (*model_)(row).logits.flatten();
      require<ConfigError>(logits.numel() == 1, "[rewards] a reward model gives one number; this one gives ",
                           logits.numel(), ".");
      scores.emplace_back(logits.item<double>());
    }
    return scores;
  }

 private:
  std::shared_ptr<const BaseModule> model_;
};

std::unique_ptr<Reward> make_reward(const Json& given, const RewardParts& parts) {
  RewardSettings settings(given);
  std::unique_ptr<Reward> reward = make_builtin_reward(settings);
  const std::string& type = settings.type();
  if (type == "command") reward = make_command_reward(settings);
  if (type == "http") reward = make_http_reward(settings);
  if (type == "library") reward = make_library_reward(settings);
  if (type == "reward_model") reward = make_model_reward(parts.model);
  require<ConfigError>(
      reward != nullptr, "[rewards] \"", type,
      "\" is unknown; known: exact, numeric, regex, format, json, length, repetition, random, command, "
      "http, library, reward_model.");
  reward->weight = settings.number("weight", 1.0);
  settings.finish();
  return reward;
}

}  // namespace

std::unique_ptr<Reward> make_model_reward(std::shared_ptr<const BaseModule> model) {
  return std::make_unique<ModelReward>(std::move(model));
}

std::vector<std::unique_ptr<Reward>> make_rewards(const Json& rewards, const RewardParts& parts) {
  std::vector<std::unique_ptr<Reward>> all;
  if (rewards.is_array()) {
    for (const Json& each : rewards.as_array()) all.push_back(make_reward(each, parts));
  } else if (!rewards.is_null()) {
    all.push_back(make_reward(rewards, parts));
  }
  return all;
}

}  // namespace easydel
