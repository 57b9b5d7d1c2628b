// What objectives with groups of completions share: prompts that know the tools, and rollouts that call them.
#pragma once

#include <memory>

#include "easydel/trainers/objectives/objective.h"
#include "easydel/trainers/rollouts/rollouts.h"

namespace easydel {

// From rows with prompts: the arguments' tools are those of the chat template, unless a row has its own.
data::Transform policy_prompts(const AutoTokenizer& tokenizer, const TrainingArguments& arguments);

// With the engine, and with the arguments' tools.
RolloutFunction make_policy_rollouts(std::shared_ptr<BaseModule> model, const AutoTokenizer& tokenizer,
                                     const RolloutArguments& arguments);

}  // namespace easydel
