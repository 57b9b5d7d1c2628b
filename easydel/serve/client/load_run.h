// Sends the requests of a load test at their times and records when their tokens came. No torch here.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "easydel/serve/client/load_plan.h"

namespace easydel::serve {

// What became of a request, in seconds. As in vLLM the clock of a request starts when it is sent, not when it would
// have been without a limit on how many run at once.
struct LoadRecord {
  bool success = false;
  std::string error;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, if the server tells
  int64_t output_tokens = 0;
  double start = 0;         // since the start of the run
  double ttft = 0;          // from sending it to its first piece
  double latency = 0;       // to its last piece
  std::vector<double> itl;  // from each piece to the next
  std::string text;

  bool has_first() const { return first_; }
  void add_piece(double now);  // now: since the start of the run

 private:
  bool first_ = false;
};

double load_clock();  // seconds of a monotonic clock

// Where requests go. One thread uses it.
class LoadTarget {
 public:
  virtual ~LoadTarget() = default;
  // Sends a request; `record` stays where it is until wait() has returned it. Times are relative to `epoch`.
  virtual void start(const LoadRequest& request, LoadRecord& record, double epoch) = 0;
  // Waits until a request ends, at most so many seconds; returns how many ended.
  virtual int64_t wait(double seconds) = 0;
};

struct LoadRun {
  std::vector<LoadRecord> records;  // in the order of the requests
  double duration = 0;              // until the last request ended
};

struct LoadRunOptions {
  Arrivals arrivals;
  int64_t max_concurrency = std::numeric_limits<int64_t>::max();
  std::function<void(int64_t)> on_done = {};  // with the number that ended
};

LoadRun run_load(LoadTarget& target, const std::vector<LoadRequest>& requests, const LoadRunOptions& options);

}  // namespace easydel::serve
