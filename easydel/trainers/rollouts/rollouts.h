// Completions of prompts by the very weights that are trained, through the engine: no copy, and nothing to keep in
// step.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "easydel/core/random.h"
#include "easydel/trainers/objectives/policy_arguments.h"

namespace easydel {

class AutoTokenizer;
class BaseModule;

struct Completion {
  std::vector<int64_t> ids;      // an end token included
  std::vector<double> logps;     // of the sampling; empty at temperatures other than 1
  std::string text;              // without special tokens
  bool is_truncated = false;     // it did not end by itself
  std::vector<double> own = {};  // 0 for tokens that a tool wrote, else 1; empty: all are the policy's

  double own_tokens() const;
};

struct RolloutResult {
  std::vector<std::vector<Completion>> completions;  // of each prompt
  int64_t prefilled_tokens = 0;                      // of prompts, that were computed: a group shares its pages
  int64_t prompt_tokens = 0;                         // of all completions' prompts
  std::map<std::string, double> metrics = {};        // of what happened in between
};

// Who is told of completions as they end, by the thread that writes them, in an order that does not depend on the
// clock.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  // Completion `index` of a prompt, which does not change any more. Must not throw.
  virtual void take(std::size_t prompt, std::size_t index, const Completion& completion) = 0;
  // Whether no more completions are of use: the rollout ends early, and check() throws the reason.
  virtual bool has_failed() const { return false; }
  virtual void check() const {}
};

// The completions of prompts, a number of each. `key` is what their random numbers depend on. A sink, which may be
// null, is told of each as it ends, or of none.
using RolloutFunction = std::function<RolloutResult(const std::vector<std::vector<int64_t>>& prompts, int64_t group,
                                                    const RandomKey& key, CompletionSink* sink)>;

// The same with the most tokens that each prompt's completions may have; empty: max_completion_length.
using LimitedRollouts =
    std::function<RolloutResult(const std::vector<std::vector<int64_t>>& prompts, int64_t group, const RandomKey& key,
                                const std::vector<int64_t>& max_tokens, CompletionSink* sink)>;

// With the engine of `model`, which lives as long as the function where one rank has the whole model, and as long as a
// call where several share it. All ranks call it together with the same prompts and get the same result.
RolloutFunction make_rollouts(std::shared_ptr<BaseModule> model, const AutoTokenizer& tokenizer,
                              const RolloutArguments& arguments);
LimitedRollouts make_limited_rollouts(std::shared_ptr<BaseModule> model, const AutoTokenizer& tokenizer,
                                      const RolloutArguments& arguments);

}  // namespace easydel
