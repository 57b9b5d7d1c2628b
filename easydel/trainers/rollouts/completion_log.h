// What the model wrote, and what it was worth: lines in completions.jsonl, and some of them on the terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "easydel/trainers/arguments/training_arguments.h"

namespace easydel {

struct LoggedCompletion {
  std::string prompt, completion;
  std::vector<std::pair<std::string, std::optional<double>>> rewards;  // each by its name
  double reward = 0, advantage = 0;                                    // NaN: none
};

inline constexpr const char* kCompletionsFile = "completions.jsonl";

// Appends to completions.jsonl of save_directory, if there is one, and prints as many as num_completions_to_print says.
void log_completions(const std::vector<LoggedCompletion>& completions, int64_t step,
                     const TrainingArguments& arguments);

}  // namespace easydel
