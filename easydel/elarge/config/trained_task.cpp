#include "easydel/elarge/config/trained_task.h"

#include <algorithm>

#include "easydel/infra/config/config_io.h"
#include "easydel/infra/registry.h"

namespace easydel {

std::vector<TaskType> trainable_tasks(const std::string& type) {
  if (type == "sft" || type == "base")
    return {TaskType::CausalLM, TaskType::SequenceToSequence, TaskType::SpeechSequenceToSequence,
            TaskType::ImageTextToText};
  if (type == "reward") return {TaskType::SequenceClassification};
  if (type == "prm") return {TaskType::TokenClassification};
  if (type == "classification") return {TaskType::SequenceClassification, TaskType::ImageClassification};
  if (type == "embedding") return {TaskType::BaseModule, TaskType::Embedding};
  if (type == "contrastive") return {TaskType::ZeroShotImageClassification};
  return {TaskType::CausalLM};
}

TaskType trained_task(const std::string& type, const ModelSection& model) {
  const TaskType given = model.task_type();
  if (given == TaskType::Embedding) return TaskType::BaseModule;  // whose states the trainer pools
  if (given != TaskType::AutoBind) return given;
  const std::vector<TaskType> known = trainable_tasks(type);
  if (known.size() == 1 || known.front() == TaskType::BaseModule) return known.front();
  const Json* named = model.extra_kwargs.find("model_type");
  const Json file = load_config_file(model.name_or_path, {.hub = {.revision = model.revision()}}).json;
  if (!named) named = file.find("model_type");
  if (!named || !named->is_string()) return known.front();
  const std::vector<TaskType> has = Registry::instance().tasks(named->as_string());
  const auto found = std::find_first_of(known.begin(), known.end(), has.begin(), has.end());
  return found == known.end() ? known.front() : *found;
}

}  // namespace easydel
