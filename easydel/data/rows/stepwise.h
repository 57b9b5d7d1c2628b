// Rows with a prompt, the steps of an answer, and whether each is right, as trl's PRM trainer prepares them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "easydel/data/rows/example.h"
#include "easydel/tokenizers/auto_tokenizer.h"

namespace easydel::data {

struct StepwiseOptions {
  std::string step_separator = "\n";  // after each step; its last token has the label
  std::optional<int64_t> max_length, max_completion_length;
  bool last_step_only = false;  // the others have no label
  bool keep_end = false;        // of rows longer than max_length
};

// From "prompt", "completions" (texts) and "labels" (true or false for each): input_ids and labels, 1 or 0 for the last
// token of a step. A row of which no label is left is skipped.
Transform make_stepwise_transform(const AutoTokenizer& tokenizer, const StepwiseOptions& options);

}  // namespace easydel::data
