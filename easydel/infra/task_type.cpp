#include "easydel/infra/task_type.h"

#include <algorithm>

#include "easydel/core/error.h"

namespace easydel {

TaskType parse_task(std::string_view text) {
  std::string name(text);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c == '_' ? '-' : std::tolower(c); });
  if (name == "causal-lm" || name == "causal-language-model") return TaskType::CausalLM;
  if (name == "base-module" || name == "base") return TaskType::BaseModule;
  if (name == "sequence-classification") return TaskType::SequenceClassification;
  if (name == "auto-bind" || name == "auto") return TaskType::AutoBind;
  fail<ConfigError>("[TaskType] a task is one of base-module, causal-lm, sequence-classification, auto-bind; got \"",
                    text, "\".");
}

std::string task_name(TaskType task) {
  switch (task) {
    case TaskType::BaseModule: return "base-module";
    case TaskType::CausalLM: return "causal-lm";
    case TaskType::SequenceClassification: return "sequence-classification";
    case TaskType::AutoBind: return "auto-bind";
  }
  return "";
}

std::string torch_loader_name(TaskType task) {
  switch (task) {
    case TaskType::CausalLM: return "AutoModelForCausalLM";
    case TaskType::SequenceClassification: return "AutoModelForSequenceClassification";
    default: return "AutoModel";
  }
}

TaskType task_of_architecture(std::string_view architecture) {
  if (architecture.ends_with("ForSequenceClassification")) return TaskType::SequenceClassification;
  if (architecture.ends_with("ForCausalLM") || architecture.ends_with("LMHeadModel")) return TaskType::CausalLM;
  return TaskType::BaseModule;
}

}  // namespace easydel
