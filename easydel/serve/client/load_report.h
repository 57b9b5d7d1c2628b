// What a load test measured, under vLLM's names and definitions. No torch here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/serve/client/load_run.h"

namespace easydel::serve {

// ttft: to the first token. tpot: (latency - ttft) / (tokens - 1). itl: between two pieces. e2el: the whole request.
inline constexpr const char* kLoadMetrics[] = {"ttft", "tpot", "itl", "e2el"};

struct LoadReportOptions {
  std::vector<std::string> metrics = {"ttft", "tpot", "itl", "e2el"};
  std::vector<double> percentiles = {99};
  std::map<std::string, double> goodput;  // milliseconds that ttft, tpot or e2el of a good request may take
};

struct LoadSummary {
  struct Metric {
    std::string name;
    double mean = 0, median = 0, std = 0;                // milliseconds
    std::vector<std::pair<double, double>> percentiles;  // which, and milliseconds
  };

  int64_t completed = 0, failed = 0;
  double duration = 0;
  int64_t total_input_tokens = 0, total_output_tokens = 0;  // of those that succeeded
  int64_t cached_tokens = 0;
  double request_throughput = 0, output_throughput = 0, total_token_throughput = 0;
  double peak_output_throughput = 0;    // pieces in the best second of the run
  int64_t max_concurrent_requests = 0;  // at the busiest moment
  std::optional<double> request_goodput;
  std::vector<Metric> metrics;
};

LoadSummary summarize(const LoadRun& run, const LoadReportOptions& options);

std::string load_table(const LoadSummary& summary);  // as vLLM prints it
Json load_json(const LoadSummary& summary);
// With a list for each thing that is known of each request, as vLLM saves them: input_lens, ttfts, itls, errors, …
Json load_json(const LoadSummary& summary, const LoadRun& run);

// Of sorted values, between neighbours in a straight line as numpy does; 0 when there are none.
double percentile(const std::vector<double>& sorted, double percent);

}  // namespace easydel::serve
