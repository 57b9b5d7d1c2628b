#include "easydel/serve/engine/replicas.h"

#include <algorithm>
#include <mutex>

namespace easydel::serve {
namespace {

class Replicas final : public Engine {
 public:
  explicit Replicas(std::vector<std::shared_ptr<Engine>> engines) : engines_(std::move(engines)) {
    require<ConfigError>(!engines_.empty(), "[engine] there are no replicas.");
  }

  RequestId submit(Request request, OutputCallback callback) override {
    // Engines in the order of their load; the next one when a queue is full.
    std::vector<std::pair<int64_t, std::size_t>> loads;
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      const EngineStats stats = engines_[i]->stats();
      loads.emplace_back(stats.running + stats.waiting, i);
    }
    // Among equal ones each gets its turn.
    const std::size_t turn = next_turn();
    const auto rank = [&](const auto& load) { return std::pair(load.first, (load.second + turn) % engines_.size()); };
    std::sort(loads.begin(), loads.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    for (std::size_t i = 0; i + 1 < loads.size(); ++i) {
      try {
        return global(engines_[loads[i].second]->submit(request, callback), loads[i].second);
      } catch (const QueueFullError&) {
        continue;
      }
    }
    const std::size_t last = loads.back().second;
    return global(engines_[last]->submit(std::move(request), std::move(callback)), last);
  }

  void cancel(RequestId id) override { engines_[id % engines_.size()]->cancel(id / engines_.size()); }

  bool drain(std::chrono::milliseconds limit) override {
    const auto end = std::chrono::steady_clock::now() + limit;
    bool all = true;
    for (const auto& engine : engines_) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      all &= engine->drain(std::max(left, std::chrono::milliseconds(0)));
    }
    return all;
  }

  void load_adapter(const std::string& name, const std::string& directory) override {
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      try {
        engines_[i]->load_adapter(name, directory);
      } catch (...) {  // all have it, or none
        for (std::size_t j = 0; j < i; ++j) engines_[j]->unload_adapter(name);
        throw;
      }
    }
  }
  void unload_adapter(const std::string& name) override {
    for (const auto& engine : engines_) engine->unload_adapter(name);
  }
  std::vector<std::string> adapters() const override { return engines_.front()->adapters(); }

  EngineStats stats() const override {
    EngineStats sum;
    for (const auto& engine : engines_) {
      const EngineStats own = engine->stats();
      constexpr int64_t EngineStats::* kCounts[] = {&EngineStats::running,
                                                    &EngineStats::waiting,
                                                    &EngineStats::pages,
                                                    &EngineStats::free_pages,
                                                    &EngineStats::prompt_tokens,
                                                    &EngineStats::generation_tokens,
                                                    &EngineStats::prefix_queries,
                                                    &EngineStats::prefix_hits,
                                                    &EngineStats::preemptions,
                                                    &EngineStats::steps,
                                                    &EngineStats::finished_stop,
                                                    &EngineStats::finished_length,
                                                    &EngineStats::finished_cancelled,
                                                    &EngineStats::finished_error,
                                                    &EngineStats::draft_tokens,
                                                    &EngineStats::accepted_tokens};
      for (int64_t EngineStats::* const count : kCounts) sum.*count += own.*count;
      sum.healthy &= own.healthy;
    }
    return sum;
  }
  std::vector<RequestSummary> summaries() const override {
    std::vector<RequestSummary> all;
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      for (RequestSummary one : engines_[i]->summaries()) {
        one.id = global(one.id, i);
        all.push_back(one);
      }
    }
    return all;
  }
  const EngineInfo& info() const override { return engines_.front()->info(); }

 private:
  RequestId global(RequestId own, std::size_t engine) const { return own * engines_.size() + engine; }
  std::size_t next_turn() {
    const std::lock_guard lock(mutex_);
    return turn_++;
  }

  std::vector<std::shared_ptr<Engine>> engines_;
  std::mutex mutex_;
  std::size_t turn_ = 0;
};

}  // namespace

std::shared_ptr<Engine> make_replicas(std::vector<std::shared_ptr<Engine>> engines) {
  return std::make_shared<Replicas>(std::move(engines));
}

}  // namespace easydel::serve
