// What /metrics and /dashboard/data tell: counters of the engine, and histograms of requests.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/serve/engine/engine.h"

namespace easydel::serve {

// As Prometheus counts: how many values were at most each bound.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void observe(double value);
  // Lines of the text format under `name`, with these labels: model_name="x".
  void write(std::string& out, std::string_view name, std::string_view labels) const;
  int64_t count() const { return total_; }
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<int64_t> counts_;  // of each interval, the last one unbounded
  int64_t total_ = 0;
  double sum_ = 0;
};

// The time line of one request to the engine, as Metrics takes it.
struct RequestTimes {
  using Clock = std::chrono::steady_clock;
  Clock::time_point arrived, first, last;  // first and last: outputs with tokens
  int64_t prompt_tokens = 0, output_tokens = 0;
  bool has_first = false;
};

// Thread-safe.
class Metrics {
 public:
  using Clock = std::chrono::steady_clock;

  Metrics();
  // An output with `tokens` new ones: time to the first token, or between two.
  void token(RequestTimes& times, int64_t tokens, Clock::time_point now);
  void finished(const RequestTimes& times, std::string_view reason, Clock::time_point now);
  void http(int status);  // an error with this status was answered

  std::string prometheus(const EngineStats& stats, const EngineInfo& info, std::string_view model_name) const;
  // Throughput of the last seconds, latency percentiles of recent requests, cache use, running and waiting requests.
  Json dashboard(const EngineStats& stats, const EngineInfo& info, std::string_view model_name, Clock::time_point now);

 private:
  struct Second {
    int64_t at = 0;  // seconds since the start
    int64_t prompt_tokens = 0, output_tokens = 0, requests = 0;
  };
  struct Recent {
    double ttft = 0, e2e = 0, tpot = 0;
  };
  Second& second(Clock::time_point now);

  mutable std::mutex mutex_;
  Clock::time_point start_;
  Histogram ttft_, itl_, tpot_, e2e_, prompt_, output_;
  std::vector<std::pair<std::string, int64_t>> reasons_;
  std::map<int, int64_t> statuses_;
  std::deque<Second> seconds_;     // the last minute
  std::deque<Recent> recent_;      // the last requests that finished
  std::deque<double> recent_itl_;  // the last gaps between tokens
};

}  // namespace easydel::serve
