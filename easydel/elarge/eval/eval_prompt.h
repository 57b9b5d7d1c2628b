// What a model is asked about each row: the few-shot examples, the question, the continuations to score.
#pragma once

#include <functional>
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
  std::vector<Request> requests;     // of a rolling task: one, without a context; of generate_until: only a context
  std::vector<std::string> choices;  // of multiple_choice
  std::vector<std::size_t> gold;     // the choices that are right
  Json answer;                       // of generate_until: the right one, or a list of them
  std::string place;                 // of the row, for messages
};

// A conversation as the model was trained on it; `continues`: the last message is the beginning of the answer.
using ChatFormat = std::function<std::string(const Json& messages, bool continues)>;

struct PromptOptions {
  int64_t num_fewshot = 0;
  uint64_t fewshot_random_seed = 1234;
  std::string system_instruction;
  ChatFormat chat;                    // none: prompts are plain text
  bool fewshot_as_multiturn = false;  // with chat: examples are messages of their own
};

// Asks as lm-evaluation-harness does, with the same examples: rows must come in order, from the first on.
class PromptBuilder {
 public:
  PromptBuilder(const EvalTask& task, data::SourcePtr rows, const PromptOptions& options);

  EvalQuestion build(int64_t row);
  int64_t size() const { return rows_->size(); }

 private:
  struct Message {
    std::string role, content;
    std::string delimiter;  // after it, in plain text
  };
  // A question, and the beginning of its answer or all of it.
  std::vector<Message> turn(const std::string& question, const std::string& answer, const std::string& prefix,
                            const TaskFormat& format) const;
  void add_shots(const Json& row, std::vector<Message>& messages);
  std::vector<Message> shot(const data::Row& row) const;
  std::string context(const std::vector<Message>& before, const std::string& question, const std::string& prefix) const;
  std::string chat_context(std::vector<Message> messages, bool continues) const;
  std::string delimiter(const std::string& prefix) const;  // before a choice
  Json answer_of(const data::Row& row, const Json& target) const;
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
