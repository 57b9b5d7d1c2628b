// The metrics of lm-evaluation-harness over the rows of a task.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/elarge/eval/eval_task.h"

namespace easydel {

// A row as it was scored.
struct EvalScore {
  std::vector<double> log_likelihoods;  // of each request
  bool is_greedy = false;               // of loglikelihood: every token was the likeliest
  std::vector<std::string> choices;
  std::vector<std::size_t> gold;
  int64_t words = 0, bytes = 0;  // of a rolling text
};

// {"acc,none": …, "acc_stderr,none": …, …}; a standard error that the harness does not define is "N/A". Perplexity's is
// a bootstrap's, with the harness's draws.
Json aggregate(const EvalTask& task, std::span<const EvalScore> rows, int64_t bootstrap_iters);

// Those of a task's metric_list; null: the default ones of its output_type. ConfigError, or NotSupportedError on a
// metric or an aggregation that is not here.
std::vector<EvalMetric> read_metrics(const EvalTask& task, const Json* metric_list);

// As re.split(r"\s+", text) has parts.
int64_t count_words(const std::string& text);

}  // namespace easydel
