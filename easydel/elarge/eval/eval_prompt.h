// What a model is asked about each row: the few-shot examples, the question, the continuations to score.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "easydel/data/sources/source.h"
#include "easydel/elarge/eval/eval_format.h"
#include "easydel/elarge/eval/eval_task.h"
#include "easydel/elarge/eval/python_random.h"

namespace easydel {

struct EvalQuestion {
  // What is scored: one continuation, one for each choice, or one for each context.
  struct Request {
    std::string context, continuation;
  };
  std::vector<Request> requests;     // of a rolling task: one, without a context
  std::vector<std::string> choices;  // of multiple_choice
  std::vector<std::size_t> gold;     // the choices that are right
  std::string place;                 // of the row, for messages
};

struct PromptOptions {
  int64_t num_fewshot = 0;
  uint64_t fewshot_random_seed = 1234;
  std::string system_instruction;
};

// Asks as lm-evaluation-harness does, with the same examples: rows must come in order, from the first on.
class PromptBuilder {
 public:
  PromptBuilder(const EvalTask& task, data::SourcePtr rows, const PromptOptions& options);

  EvalQuestion build(int64_t row);
  int64_t size() const { return rows_->size(); }

 private:
  std::string shots(const Json& row);
  std::string shot(const data::Row& row) const;
  std::vector<Json> draw(const Json* leave_out);
  std::vector<std::size_t> gold_of(const data::Row& row, const Json& given, std::size_t choices,
                                   const std::vector<std::string>& texts) const;

  const EvalTask& task_;
  data::SourcePtr rows_, pool_;
  PromptOptions options_;
  std::optional<RowFormat> format_, shot_format_;
  RowField description_;
  PythonRandom random_;
  bool choices_are_contexts_ = false;  // doc_to_text is the index of the right one
};

}  // namespace easydel
