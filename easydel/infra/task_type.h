// What a model is for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace easydel {

enum class TaskType : uint8_t {
  BaseModule,  // hidden states, no head
  CausalLM,
  SequenceClassification,
  AutoBind,  // what the config's architectures say
};

// "causal-lm", also "causal-language-model", "base-module", "sequence-classification", "auto-bind". ConfigError
// otherwise.
TaskType parse_task(std::string_view name);
std::string task_name(TaskType task);

// The class of transformers that loads such a model: "AutoModelForCausalLM".
std::string torch_loader_name(TaskType task);
// The task of an architecture's name: LlamaForCausalLM and GPT2LMHeadModel are causal LMs, LlamaModel a base module.
TaskType task_of_architecture(std::string_view architecture);

}  // namespace easydel
