// What a completion is worth: numbers from built-in checks, from a program, a server, a model or a function.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {

class AutoTokenizer;
class BaseModule;

// A completion, and what it is measured by.
struct RewardInput {
  std::string prompt, completion;  // texts, without special tokens
  const Json* row = nullptr;       // of the data
  int64_t tokens = 0;              // of the completion
  bool is_truncated = false;       // it did not end by itself
  std::vector<int64_t> ids = {};   // of prompt and completion, for models
};

// In their order; nothing for a completion that cannot be judged.
using RewardScores = std::vector<std::optional<double>>;
using RewardFunction = std::function<RewardScores(const std::vector<RewardInput>&)>;

// The threads that ask a reward, and what they ask it about at a time: a completion or the completions of a prompt once
// they have ended, or all of a rollout.
struct RewardLanes {
  enum class Unit { Completion, Group, Rollout };
  std::size_t count = 0;  // 0: none; it is asked about all of a rollout by the thread that waits for the scores
  Unit unit = Unit::Rollout;
};

constexpr std::size_t kMaxRewardWorkers = 256;

class Reward {
 public:
  virtual ~Reward() = default;
  virtual std::string name() const = 0;
  // IoError, with its name, when it fails as a whole.
  virtual RewardScores score(const std::vector<RewardInput>& inputs) = 0;
  // How it is asked by threads of its own, while completions are still written.
  virtual RewardLanes lanes() const { return {}; }
  // The same on one of its lanes, which may be asked at the same time.
  virtual RewardScores score_on(std::size_t /*lane*/, const std::vector<RewardInput>& inputs) { return score(inputs); }
  double weight = 1.0;
};

// What a reward needs besides its settings.
struct RewardParts {
  std::shared_ptr<const BaseModule> model = {};  // a sequence classifier of one number, for reward_model
};

// From "exact", or {type: exact, weight: 0.5, field: answer}, or a list of such:
//   exact      1 if the completion is the text of `field` (answer), without spaces around it
//   numeric    1 if the number in \boxed{} or the last number of the completion is that of `field` (answer)
//   regex      1 if `pattern` is found in the completion
//   format     1 if the whole completion matches `pattern` (<think>…</think> and an answer)
//   json       1 if the completion is JSON; with `required`, an object with these keys
//   length     1 less the distance of its tokens from `target`, as a share of that; not below 0
//   repetition minus the share of `n` (4) words in a row that occurred before
//   random     a number between 0 and 1, the same for the same prompt and completion: a control
//   command    a program: `command` (a list of words, or a text without quotes), `timeout` (10 seconds), `workers` (1)
//   http       a server: `url`, `timeout`, `workers` (1), `batch`: group (the completions of a prompt) or rollout (all)
//   library    a C function of a shared library: `path`, `function` (reward)
//   reward_model  a sequence classifier
// ConfigError names a type or a key that is not known.
std::vector<std::unique_ptr<Reward>> make_rewards(const Json& rewards, const RewardParts& parts = {});
std::unique_ptr<Reward> make_function_reward(std::string name, RewardFunction function);

}  // namespace easydel
