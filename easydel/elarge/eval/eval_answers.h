// The metrics of answers that a model wrote: exact_match, IFEval's, pass@k.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/data/sources/source.h"
#include "easydel/elarge/eval/eval_task.h"

namespace easydel {

// A row and what was answered.
struct EvalAnswers {
  data::Row row;
  Json gold;  // a text, or a list of texts of which each is right
  std::vector<std::string> answers;
};

struct AnswerOptions {
  int64_t bootstrap_iters = 100000;             // 0: no standard errors
  std::optional<std::filesystem::path> python;  // for pass_at_k
  std::chrono::milliseconds code_timeout{3000};
};

// Whether a metric runs what was answered.
bool runs_code(const EvalTask& task);

// {"exact_match,strict-match": …, "exact_match_stderr,strict-match": …, …}, for each metric and each filter.
Json aggregate_answers(const EvalTask& task, const std::vector<EvalAnswers>& rows, const AnswerOptions& options);

}  // namespace easydel
