#include "easydel/trainers/rollouts/tools/tool_use.h"

#include "easydel/core/error.h"
#include "easydel/data/rows/preference.h"
#include "easydel/data/sources/text_codec.h"
#include "easydel/trainers/rollouts/tools/tool_box.h"
#include "easydel/trainers/rollouts/tools/tool_rollouts.h"

namespace easydel {

data::Transform policy_prompts(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) {
  const data::Transform read = data::make_prompt_transform(
      tokenizer,
      {.codec = {}, .max_length = arguments.rollout.max_prompt_length, .truncation_mode = arguments.truncation_mode});
  const Json schemas = ToolBox(arguments.rollout.tools).schemas();
  if (schemas.size() == 0) return read;
  return [read, schemas](const data::Row& row) -> std::optional<data::Example> {
    const Json* prompt = row.values.find("prompt");
    require<FormatError>(prompt && data::is_conversation(*prompt), "[", row.place(),
                         "] with tools \"prompt\" must be a list of messages, from which the chat template describes "
                         "the tools to the model.");
    data::Row with = row;
    if (!row.values.contains("tools")) with.values["tools"] = schemas;
    return read(with);
  };
}

RolloutFunction make_policy_rollouts(std::shared_ptr<BaseModule> model, const AutoTokenizer& tokenizer,
                                     const RolloutArguments& arguments) {
  auto tools = std::make_shared<ToolBox>(arguments.tools);
  if (tools->empty()) return make_rollouts(std::move(model), tokenizer, arguments);
  return make_tool_rollouts(make_limited_rollouts(model, tokenizer, arguments), std::move(tools), model, tokenizer,
                            arguments);
}

}  // namespace easydel
