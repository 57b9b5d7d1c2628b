// Completions in which the policy calls tools, and reads what they answer.
#pragma once

#include <memory>

#include "easydel/trainers/rollouts/rollouts.h"

namespace easydel {

class ToolBox;

// Rollouts that go on after tool calls, with the answers behind them, until there are no calls, or
// max_completion_length or max_tool_calling_iterations is reached: as trl has it. Calls are read in the format of the
// chat template, and the template writes the answers, whose tokens are not the policy's. ConfigError when the template
// knows no tools. All ranks call it together; the first one calls the tools.
RolloutFunction make_tool_rollouts(LimitedRollouts rollouts, std::shared_ptr<ToolBox> tools,
                                   std::shared_ptr<const BaseModule> model, const AutoTokenizer& tokenizer,
                                   const RolloutArguments& arguments);

}  // namespace easydel
