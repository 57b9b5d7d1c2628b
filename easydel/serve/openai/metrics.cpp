#include "easydel/serve/openai/metrics.h"

#include <algorithm>

#include "easydel/core/error.h"

namespace easydel::serve {
namespace {

constexpr std::size_t kMetricsRecent = 1024;  // requests, and gaps between tokens, of the percentiles
constexpr int64_t kMetricsSeconds = 60;       // of throughput that are kept
constexpr int64_t kMetricsWindow = 10;        // of which the mean is shown

std::vector<double> metrics_seconds_bounds() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
          1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
}
std::vector<double> metrics_gap_bounds() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,  0.15, 0.2,  0.3,
          0.4,   0.5,    0.75,  1.0,  2.5,   5.0,  7.5,   10.0, 20.0, 40.0, 80.0};
}
std::vector<double> metrics_e2e_bounds() {
  return {0.01, 0.05, 0.1,  0.3,  0.5,  0.8,  1.0,   1.5,   2.0,   2.5,   5.0,    10.0,
          15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
}
std::vector<double> metrics_token_bounds() {
  std::vector<double> bounds;
  for (double decade = 1; decade <= 100000; decade *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) bounds.push_back(decade * step);
  }
  return bounds;
}

double metrics_between(Metrics::Clock::time_point from, Metrics::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::string metrics_escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

// One family of the text format under both of its names.
class MetricsText {
 public:
  explicit MetricsText(std::string labels) : labels_(std::move(labels)) {}

  void value(std::string_view name, std::string_view type, std::string_view help, double value) {
    for (const std::string& full : names(name, type)) {
      head(full, type, help);
      out_ += concat(full, "{", labels_, "} ", number(value), "\n");
    }
  }
  void labelled(std::string_view name, std::string_view help, std::string_view label,
                const std::vector<std::pair<std::string, int64_t>>& values) {
    for (const std::string& full : names(name, "counter")) {
      head(full, "counter", help);
      for (const auto& [key, count] : values) {
        out_ += concat(full, "{", labels_, ",", label, "=\"", key, "\"} ", count, "\n");
      }
    }
  }
  void histogram(std::string_view name, std::string_view help, const Histogram& values) {
    for (const std::string& full : names(name, "histogram")) {
      head(full, "histogram", help);
      values.write(out_, full, labels_);
    }
  }
  std::string take() { return std::move(out_); }

  static std::string number(double value) { return Json(value).dump(); }

 private:
  static std::vector<std::string> names(std::string_view name, std::string_view type) {
    const std::string suffix = type == "counter" ? "_total" : "";
    return {concat("vllm:", name, suffix), concat("easydel:", name, suffix)};
  }
  void head(std::string_view full, std::string_view type, std::string_view help) {
    out_ += concat("# HELP ", full, " ", help, "\n# TYPE ", full, " ", type, "\n");
  }

  std::string labels_, out_;
};

Json metrics_percentiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) -> Json {
    if (values.empty()) return {};
    const auto rank = static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5);
    return values[rank] * 1000.0;
  };
  return Json::object({{"p50", at(0.5)}, {"p90", at(0.9)}, {"p95", at(0.95)}, {"p99", at(0.99)}});
}

double metrics_cache_use(const EngineStats& stats) {
  if (stats.pages <= 0) return 0.0;
  return 1.0 - static_cast<double>(stats.free_pages) / static_cast<double>(stats.pages);
}

template <class T>
void metrics_push(std::deque<T>& values, T value) {
  values.push_back(std::move(value));
  if (values.size() > kMetricsRecent) values.pop_front();
}

}  // namespace

void Histogram::observe(double value) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  ++counts_[static_cast<std::size_t>(at - bounds_.begin())];
  ++total_;
  sum_ += value;
}

void Histogram::write(std::string& out, std::string_view name, std::string_view labels) const {
  int64_t below = 0;
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    below += counts_[i];
    out += concat(name, "_bucket{", labels, ",le=\"", MetricsText::number(bounds_[i]), "\"} ", below, "\n");
  }
  out += concat(name, "_bucket{", labels, ",le=\"+Inf\"} ", total_, "\n");
  out += concat(name, "_sum{", labels, "} ", MetricsText::number(sum_), "\n");
  out += concat(name, "_count{", labels, "} ", total_, "\n");
}

Metrics::Metrics()
    : start_(Clock::now()),
      ttft_(metrics_seconds_bounds()),
      itl_(metrics_gap_bounds()),
      tpot_(metrics_gap_bounds()),
      e2e_(metrics_e2e_bounds()),
      prompt_(metrics_token_bounds()),
      output_(metrics_token_bounds()),
      reasons_{{"stop", 0}, {"length", 0}, {"cancelled", 0}, {"error", 0}} {}

Metrics::Second& Metrics::second(Clock::time_point now) {
  const auto at = static_cast<int64_t>(metrics_between(start_, now));
  if (seconds_.empty() || seconds_.back().at < at) seconds_.push_back({.at = at});
  while (seconds_.front().at < at - kMetricsSeconds) seconds_.pop_front();
  return seconds_.back();
}

void Metrics::token(RequestTimes& times, int64_t tokens, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Second& bin = second(now);
  bin.output_tokens += tokens;
  if (!times.has_first) {
    times.has_first = true;
    times.first = now;
    bin.prompt_tokens += times.prompt_tokens;
    ttft_.observe(metrics_between(times.arrived, now));
  } else {
    const double gap = metrics_between(times.last, now);
    itl_.observe(gap);
    metrics_push(recent_itl_, gap);
  }
  times.last = now;
}

void Metrics::finished(const RequestTimes& times, std::string_view reason, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  for (auto& [name, count] : reasons_) count += name == reason ? 1 : 0;
  if (reason != "stop" && reason != "length") return;
  ++second(now).requests;
  Recent recent{.ttft = times.has_first ? metrics_between(times.arrived, times.first) : 0.0,
                .e2e = metrics_between(times.arrived, now)};
  e2e_.observe(recent.e2e);
  prompt_.observe(static_cast<double>(times.prompt_tokens));
  output_.observe(static_cast<double>(times.output_tokens));
  if (times.output_tokens > 1) {
    recent.tpot = metrics_between(times.first, times.last) / static_cast<double>(times.output_tokens - 1);
    tpot_.observe(recent.tpot);
  }
  metrics_push(recent_, recent);
}

void Metrics::http(int status) {
  const std::lock_guard lock(mutex_);
  ++statuses_[status];
}

std::string Metrics::prometheus(const EngineStats& stats, const EngineInfo& info, std::string_view model_name) const {
  const std::lock_guard lock(mutex_);
  MetricsText text(concat("engine=\"0\",model_name=\"", metrics_escaped(model_name), "\""));
  const auto count = [](int64_t value) { return static_cast<double>(value); };
  text.value("num_requests_running", "gauge", "Number of running requests.", count(stats.running));
  text.value("num_requests_waiting", "gauge", "Number of waiting requests.", count(stats.waiting));
  text.value("kv_cache_usage_perc", "gauge", "Fraction of KV cache pages in use.", metrics_cache_use(stats));
  text.value("prefix_cache_queries", "counter", "Tokens looked up in the prefix cache.", count(stats.prefix_queries));
  text.value("prefix_cache_hits", "counter", "Tokens found in the prefix cache.", count(stats.prefix_hits));
  text.value("num_preemptions", "counter", "Requests preempted because the KV cache was full.",
             count(stats.preemptions));
  text.value("prompt_tokens", "counter", "Prompt tokens processed.", count(stats.prompt_tokens));
  text.value("generation_tokens", "counter", "Tokens generated.", count(stats.generation_tokens));
  text.value("spec_decode_num_draft_tokens", "counter", "Draft tokens proposed.", count(stats.draft_tokens));
  text.value("spec_decode_num_accepted_tokens", "counter", "Draft tokens accepted.", count(stats.accepted_tokens));
  text.value("engine_steps", "counter", "Engine steps.", count(stats.steps));
  text.value("max_num_seqs", "gauge", "Maximum number of concurrent requests.", count(info.max_num_seqs));
  text.labelled("request_success", "Finished requests by finish reason.", "finished_reason", reasons_);
  std::vector<std::pair<std::string, int64_t>> statuses;
  for (const auto& [status, answers] : statuses_) statuses.emplace_back(std::to_string(status), answers);
  text.labelled("http_errors", "Error responses by status.", "status", statuses);
  text.histogram("time_to_first_token_seconds", "Time from the arrival of a request to its first token.", ttft_);
  text.histogram("inter_token_latency_seconds", "Time between two outputs of a request.", itl_);
  text.histogram("request_time_per_output_token_seconds", "Mean time per output token after the first.", tpot_);
  text.histogram("e2e_request_latency_seconds", "Time from the arrival of a request to its end.", e2e_);
  text.histogram("request_prompt_tokens", "Prompt tokens per request.", prompt_);
  text.histogram("request_generation_tokens", "Generated tokens per request.", output_);
  return text.take();
}

Json Metrics::dashboard(const EngineStats& stats, const EngineInfo& info, std::string_view model_name,
                        Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  second(now);
  const int64_t current = seconds_.back().at;
  const double seconds = static_cast<double>(std::clamp<int64_t>(current, 1, kMetricsWindow));
  Second sum;
  Json history = Json::array();
  for (const Second& one : seconds_) {
    if (one.at == current) continue;  // not over yet
    history.push_back(Json::object({{"second", one.at},
                                    {"prompt_tokens", one.prompt_tokens},
                                    {"generation_tokens", one.output_tokens},
                                    {"requests", one.requests}}));
    if (one.at < current - kMetricsWindow) continue;
    sum.prompt_tokens += one.prompt_tokens;
    sum.output_tokens += one.output_tokens;
    sum.requests += one.requests;
  }
  std::vector<double> ttft, e2e, tpot;
  for (const Recent& one : recent_) {
    ttft.push_back(one.ttft);
    e2e.push_back(one.e2e);
    if (one.tpot > 0) tpot.push_back(one.tpot);
  }
  const auto rate = [&](int64_t value) { return static_cast<double>(value) / seconds; };
  const double hit_rate =
      stats.prefix_queries > 0 ? static_cast<double>(stats.prefix_hits) / static_cast<double>(stats.prefix_queries) : 0;
  return Json::object(
      {{"model", model_name},
       {"uptime_s", metrics_between(start_, now)},
       {"healthy", stats.healthy},
       {"running", stats.running},
       {"waiting", stats.waiting},
       {"max_num_seqs", info.max_num_seqs},
       {"max_model_len", info.max_model_len},
       {"throughput", Json::object({{"window_s", seconds},
                                    {"prompt_tokens_per_s", rate(sum.prompt_tokens)},
                                    {"generation_tokens_per_s", rate(sum.output_tokens)},
                                    {"requests_per_s", rate(sum.requests)}})},
       {"history", std::move(history)},
       {"latency_ms", Json::object({{"ttft", metrics_percentiles(std::move(ttft))},
                                    {"itl", metrics_percentiles({recent_itl_.begin(), recent_itl_.end()})},
                                    {"tpot", metrics_percentiles(std::move(tpot))},
                                    {"e2e", metrics_percentiles(std::move(e2e))}})},
       {"cache", Json::object({{"usage", metrics_cache_use(stats)},
                               {"pages", stats.pages},
                               {"free_pages", stats.free_pages},
                               {"prefix_hit_rate", hit_rate}})},
       {"totals", Json::object({{"prompt_tokens", stats.prompt_tokens},
                                {"generation_tokens", stats.generation_tokens},
                                {"preemptions", stats.preemptions},
                                {"steps", stats.steps},
                                {"finished_stop", stats.finished_stop},
                                {"finished_length", stats.finished_length},
                                {"finished_cancelled", stats.finished_cancelled},
                                {"finished_error", stats.finished_error},
                                {"draft_tokens", stats.draft_tokens},
                                {"accepted_tokens", stats.accepted_tokens}})}});
}

}  // namespace easydel::serve
