#include "easydel/infra/task_type.h"

#include <algorithm>
#include <array>

#include "easydel/core/error.h"

namespace easydel {
namespace {

struct Task {
  TaskType task;
  std::string_view name;
  std::string_view torch_loader;
  std::string_view suffix;  // of the names of its architectures; empty: none
};

// Longer suffixes of the same ending come first.
constexpr std::array kTasks = {
    Task{TaskType::BaseModule, "base-module", "AutoModel", ""},
    Task{TaskType::CausalLM, "causal-lm", "AutoModelForCausalLM", "ForCausalLM"},
    Task{TaskType::SequenceClassification, "sequence-classification", "AutoModelForSequenceClassification",
         "ForSequenceClassification"},
    Task{TaskType::SequenceToSequence, "sequence-to-sequence", "AutoModelForSeq2SeqLM", ""},
    Task{TaskType::SpeechSequenceToSequence, "speech-sequence-to-sequence", "AutoModelForSpeechSeq2Seq", ""},
    Task{TaskType::MaskedLM, "masked-lm", "AutoModelForMaskedLM", "ForMaskedLM"},
    Task{TaskType::TokenClassification, "token-classification", "AutoModelForTokenClassification",
         "ForTokenClassification"},
    Task{TaskType::QuestionAnswering, "question-answering", "AutoModelForQuestionAnswering", "ForQuestionAnswering"},
    Task{TaskType::Embedding, "embedding", "AutoModel", ""},
    Task{TaskType::VisionModule, "vision-module", "AutoModel", "VisionModel"},
    Task{TaskType::ImageClassification, "image-classification", "AutoModelForImageClassification",
         "ForImageClassification"},
    Task{TaskType::ZeroShotImageClassification, "zero-shot-image-classification",
         "AutoModelForZeroShotImageClassification", ""},
    Task{TaskType::ImageTextToText, "image-text-to-text", "AutoModelForImageTextToText", ""},
    Task{TaskType::AudioClassification, "audio-classification", "AutoModelForAudioClassification",
         "ForAudioClassification"},
    Task{TaskType::AutoBind, "auto-bind", "AutoModel", ""},
};

const Task& entry(TaskType task) {
  return *std::find_if(kTasks.begin(), kTasks.end(), [task](const Task& t) { return t.task == task; });
}

}  // namespace

TaskType parse_task(std::string_view text) {
  std::string name(text);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c == '_' ? '-' : std::tolower(c); });
  if (name == "causal-language-model") name = "causal-lm";
  if (name == "base") name = "base-module";
  if (name == "auto") name = "auto-bind";
  if (name == "seq2seq" || name == "seq2seq-lm") name = "sequence-to-sequence";
  std::string names;
  for (const Task& task : kTasks) {
    if (task.name == name) return task.task;
    names += (names.empty() ? "" : ", ") + std::string(task.name);
  }
  fail<ConfigError>("[TaskType] a task must be one of ", names, "; got \"", text, "\".");
}

std::string task_name(TaskType task) { return std::string(entry(task).name); }

bool is_token_task(TaskType task) {
  switch (task) {
    case TaskType::SequenceClassification:
    case TaskType::QuestionAnswering:
    case TaskType::Embedding:
    case TaskType::VisionModule:
    case TaskType::ImageClassification:
    case TaskType::ZeroShotImageClassification:
    case TaskType::AudioClassification: return false;
    default: return true;
  }
}

std::string torch_loader_name(TaskType task) { return std::string(entry(task).torch_loader); }

TaskType task_of_architecture(std::string_view architecture) {
  if (architecture.ends_with("LMHeadModel")) return TaskType::CausalLM;
  for (const Task& task : kTasks) {
    if (!task.suffix.empty() && architecture.ends_with(task.suffix)) return task.task;
  }
  return TaskType::BaseModule;
}

}  // namespace easydel
