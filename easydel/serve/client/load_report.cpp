#include "easydel/serve/client/load_report.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <numeric>
#include <sstream>

#include "easydel/core/error.h"

namespace easydel::serve {
namespace {

double load_tpot(const LoadRecord& record) {
  if (record.output_tokens <= 1) return 0;
  return (record.latency - record.ttft) / static_cast<double>(record.output_tokens - 1);
}

// The values of a metric over all requests that succeeded, in milliseconds, sorted.
std::vector<double> load_values(const LoadRun& run, const std::string& name) {
  std::vector<double> values;
  for (const LoadRecord& record : run.records) {
    if (!record.success) continue;
    if (name == "ttft") values.push_back(record.ttft);
    if (name == "tpot" && record.output_tokens > 1) values.push_back(load_tpot(record));
    if (name == "itl") values.insert(values.end(), record.itl.begin(), record.itl.end());
    if (name == "e2el") values.push_back(record.latency);
  }
  for (double& value : values) value *= 1e3;
  std::sort(values.begin(), values.end());
  return values;
}

LoadSummary::Metric load_metric(const LoadRun& run, const std::string& name, const std::vector<double>& percentiles) {
  const std::vector<double> values = load_values(run, name);
  LoadSummary::Metric metric{.name = name, .median = percentile(values, 50)};
  for (const double percent : percentiles) metric.percentiles.emplace_back(percent, percentile(values, percent));
  if (values.empty()) return metric;
  const auto count = static_cast<double>(values.size());
  metric.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - metric.mean) * (value - metric.mean);
  metric.std = std::sqrt(squares / count);
  return metric;
}

bool load_is_good(const LoadRecord& record, const std::map<std::string, double>& limits) {
  const auto within = [&](const char* name, double seconds) {
    const auto limit = limits.find(name);
    return limit == limits.end() || seconds * 1e3 <= limit->second;
  };
  return within("ttft", record.ttft) && within("tpot", load_tpot(record)) && within("e2el", record.latency);
}

// The pieces of the best second, and the requests under way at the busiest moment.
void add_peaks(const LoadRun& run, LoadSummary& summary) {
  std::vector<int64_t> pieces(static_cast<std::size_t>(run.duration) + 1);
  std::vector<std::pair<double, int>> changes;  // an end goes before a start at the same time
  for (const LoadRecord& record : run.records) {
    if (!record.success) continue;
    changes.emplace_back(record.start, 1);
    changes.emplace_back(record.start + record.latency, -1);
    double now = record.start + record.ttft;
    ++pieces[std::min(static_cast<std::size_t>(now), pieces.size() - 1)];
    for (const double gap : record.itl) ++pieces[std::min(static_cast<std::size_t>(now += gap), pieces.size() - 1)];
  }
  summary.peak_output_throughput = static_cast<double>(*std::max_element(pieces.begin(), pieces.end()));
  std::sort(changes.begin(), changes.end());
  int64_t running = 0;
  for (const auto& [time, change] : changes)
    summary.max_concurrent_requests = std::max(summary.max_concurrent_requests, running += change);
}

std::string load_percent(double percent) {  // "99", "99.9"
  std::ostringstream out;
  out << percent;
  return out.str();
}

std::string load_upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string load_heading(const std::string& title, char fill) {
  const std::size_t width = 50, left = (width - title.size()) / 2;
  return std::string(left, fill) + title + std::string(width - title.size() - left, fill) + "\n";
}

std::string load_title(const std::string& metric) {
  if (metric == "ttft") return "Time to First Token";
  if (metric == "tpot") return "Time per Output Token (excl. 1st token)";
  if (metric == "itl") return "Inter-token Latency";
  return "End-to-end Latency";
}

}  // namespace

double percentile(const std::vector<double>& sorted, double percent) {
  if (sorted.empty()) return 0;
  const double at = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto low = std::min(static_cast<std::size_t>(at), sorted.size() - 1);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

LoadSummary summarize(const LoadRun& run, const LoadReportOptions& options) {
  LoadSummary summary{.duration = run.duration};
  int64_t good = 0;
  for (const LoadRecord& record : run.records) {
    if (!record.success) {
      ++summary.failed;
      continue;
    }
    ++summary.completed;
    summary.total_input_tokens += record.prompt_tokens;
    summary.total_output_tokens += record.output_tokens;
    summary.cached_tokens += record.cached_tokens;
    if (load_is_good(record, options.goodput)) ++good;
  }
  const auto rate = [&](int64_t count) { return run.duration > 0 ? static_cast<double>(count) / run.duration : 0.0; };
  summary.request_throughput = rate(summary.completed);
  summary.output_throughput = rate(summary.total_output_tokens);
  summary.total_token_throughput = rate(summary.total_input_tokens + summary.total_output_tokens);
  if (!options.goodput.empty()) summary.request_goodput = rate(good);
  add_peaks(run, summary);
  for (const std::string& name : options.metrics)
    summary.metrics.push_back(load_metric(run, name, options.percentiles));
  return summary;
}

std::string load_table(const LoadSummary& summary) {
  std::ostringstream out;
  const auto row = [&](const std::string& name, const auto& value) {
    out << std::left << std::setw(40) << name << " " << std::fixed << std::setprecision(2) << value << "\n";
  };
  out << load_heading(" Serving Benchmark Result ", '=');
  row("Successful requests:", summary.completed);
  row("Failed requests:", summary.failed);
  row("Benchmark duration (s):", summary.duration);
  row("Total input tokens:", summary.total_input_tokens);
  row("Total generated tokens:", summary.total_output_tokens);
  row("Request throughput (req/s):", summary.request_throughput);
  if (summary.request_goodput) row("Request goodput (req/s):", *summary.request_goodput);
  row("Output token throughput (tok/s):", summary.output_throughput);
  row("Peak output token throughput (tok/s):", summary.peak_output_throughput);
  row("Peak concurrent requests:", summary.max_concurrent_requests);
  row("Total token throughput (tok/s):", summary.total_token_throughput);
  for (const LoadSummary::Metric& metric : summary.metrics) {
    const std::string name = load_upper(metric.name) + " (ms):";
    out << load_heading(load_title(metric.name), '-');
    row("Mean " + name, metric.mean);
    row("Median " + name, metric.median);
    for (const auto& [percent, value] : metric.percentiles) row("P" + load_percent(percent) + " " + name, value);
  }
  out << std::string(50, '=') << "\n";
  return out.str();
}

Json load_json(const LoadSummary& summary) {
  Json json = Json::object({{"duration", summary.duration},
                            {"completed", summary.completed},
                            {"failed", summary.failed},
                            {"total_input_tokens", summary.total_input_tokens},
                            {"total_output_tokens", summary.total_output_tokens},
                            {"cached_tokens", summary.cached_tokens},
                            {"request_throughput", summary.request_throughput},
                            {"output_throughput", summary.output_throughput},
                            {"total_token_throughput", summary.total_token_throughput},
                            {"max_output_tokens_per_s", summary.peak_output_throughput},
                            {"max_concurrent_requests", summary.max_concurrent_requests}});
  if (summary.request_goodput) json["request_goodput"] = *summary.request_goodput;
  for (const LoadSummary::Metric& metric : summary.metrics) {
    json["mean_" + metric.name + "_ms"] = metric.mean;
    json["median_" + metric.name + "_ms"] = metric.median;
    json["std_" + metric.name + "_ms"] = metric.std;
    for (const auto& [percent, value] : metric.percentiles)
      json["p" + load_percent(percent) + "_" + metric.name + "_ms"] = value;
  }
  return json;
}

Json load_json(const LoadSummary& summary, const LoadRun& run) {
  Json json = load_json(summary);
  for (const char* key : {"input_lens", "output_lens", "start_times", "ttfts", "itls", "generated_texts", "errors"})
    json[key] = Json::array();
  for (const LoadRecord& record : run.records) {
    json["input_lens"].push_back(record.prompt_tokens);
    json["output_lens"].push_back(record.output_tokens);
    json["start_times"].push_back(record.start);
    json["ttfts"].push_back(record.ttft);
    json["itls"].push_back(Json(record.itl));
    json["generated_texts"].push_back(record.text);
    json["errors"].push_back(record.error);
  }
  return json;
}

}  // namespace easydel::serve
