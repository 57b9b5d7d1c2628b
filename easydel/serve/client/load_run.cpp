#include "easydel/serve/client/load_run.h"

#include <algorithm>

namespace easydel::serve {

double load_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void LoadRecord::add_piece(double now) {
  const double since = now - start;
  if (first_) {
    itl.push_back(since - latency);
  } else {
    ttft = since;
  }
  first_ = true;
  latency = since;
}

LoadRun run_load(LoadTarget& target, const std::vector<LoadRequest>& requests, const LoadRunOptions& options) {
  LoadRun run;
  run.records.resize(requests.size());
  const std::vector<double> times = arrival_times(requests.size(), options.arrivals);
  const double epoch = load_clock();
  std::size_t next = 0, done = 0;
  while (done < requests.size()) {
    double now = load_clock() - epoch;
    const auto may_send = [&] {
      return next < requests.size() && static_cast<int64_t>(next - done) < options.max_concurrency;
    };
    while (may_send() && times[next] <= now) {
      LoadRecord& record = run.records[next];
      record.prompt_tokens = requests[next].prompt_tokens;
      record.start = now = load_clock() - epoch;
      target.start(requests[next++], record, epoch);
    }
    const double idle = may_send() ? std::max(0.0, times[next] - now) : 1.0;
    const int64_t ended = target.wait(std::min(idle, 1.0));
    done += static_cast<std::size_t>(ended);
    if (ended > 0 && options.on_done) options.on_done(ended);
  }
  run.duration = load_clock() - epoch;
  return run;
}

}  // namespace easydel::serve
