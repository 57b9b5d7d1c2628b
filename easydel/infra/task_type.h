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
  SequenceToSequence,
  SpeechSequenceToSequence,
  MaskedLM,
  TokenClassification,
  QuestionAnswering,
  Embedding,     // a base model whose outputs are pooled to one vector for each row
  VisionModule,  // a vision tower
  ImageClassification,
  ZeroShotImageClassification,  // two towers: texts as the classes of images
  ImageTextToText,
  AudioClassification,
  AutoBind,  // what the config's architectures say
};

// "causal-lm", also "causal-language-model", "base-module", "sequence-to-sequence", … "auto-bind". ConfigError
// otherwise, with all of them.
TaskType parse_task(std::string_view name);
std::string task_name(TaskType task);
// Whether labels and outputs have a row for each token, rather than one for each sequence or image.
bool is_token_task(TaskType task);

// The class of transformers that loads such a model: "AutoModelForCausalLM".
std::string torch_loader_name(TaskType task);
// The task of an architecture's name: LlamaForCausalLM and GPT2LMHeadModel are causal LMs, LlamaModel a base module.
TaskType task_of_architecture(std::string_view architecture);

}  // namespace easydel
