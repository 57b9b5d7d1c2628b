// What the model writes for some prompts while it is trained, with the engine that rollouts use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/trainers/arguments/training_arguments.h"

namespace easydel {

class AutoTokenizer;
class BaseModule;
namespace data {
class Dataset;
}

class Previews {
 public:
  // ConfigError on prompts that cannot be read, and for a model that writes no text or has no room for it. All of it
  // outlives the object.
  Previews(const std::string& trainer_type, const TrainingArguments& arguments, const AutoTokenizer& tokenizer,
           std::shared_ptr<BaseModule> model, const data::Dataset& rows);

  // After this step, with the model as it is: a list of objects with prompt and completion, those of a prompt together.
  // All ranks call it together and get the same. Neither weights nor random numbers of the training change.
  Json write(int64_t step) const;

 private:
  struct Prompt {
    std::string text;
    std::vector<int64_t> ids;
  };
  Prompt read(const Json& values, const std::string& place) const;

  const TrainingArguments& arguments_;
  const AutoTokenizer& tokenizer_;
  std::shared_ptr<BaseModule> model_;
  const data::Dataset& rows_;
  RolloutArguments sampling_;
  std::vector<Prompt> given_;
  int64_t of_data_ = 0;  // prompts that the data gives
};

// Lines of a table on the terminal: a title, and for each preview its prompt and completion, cut to `width` columns.
std::vector<std::string> preview_table(const Json& previews, int64_t step, std::size_t width = 100);

}  // namespace easydel
