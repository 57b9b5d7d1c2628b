// The engine of one model in this process: a thread that takes requests in, runs steps and hands tokens out.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "easydel/infra/base_module.h"
#include "easydel/serve/engine/active_request.h"
#include "easydel/serve/engine/drafter.h"
#include "easydel/serve/engine/engine.h"
#include "easydel/serve/engine/runner.h"
#include "easydel/serve/engine/sampler.h"

namespace easydel::serve {

inline constexpr const char* kShutDown = "the engine was shut down";  // the error of what runs or waits then

class LocalEngine final : public Engine {
 public:
  LocalEngine(std::shared_ptr<BaseModule> model, std::shared_ptr<const Tokenizer> tokenizer,
              const EngineOptions& options);
  ~LocalEngine() override;

  RequestId submit(Request request, OutputCallback callback) override;
  void cancel(RequestId id) override;
  bool drain(std::chrono::milliseconds limit) override;
  void load_adapter(const std::string& name, const std::string& directory) override;
  void unload_adapter(const std::string& name) override;
  std::vector<std::string> adapters() const override;
  void forget_prefixes();  // see forget_prefixes.h
  // Runs on the engine's thread between two steps; the caller waits. See between_steps.h.
  void between_steps(const std::function<void()>& action);
  EngineStats stats() const override;
  std::vector<RequestSummary> summaries() const override;
  const EngineInfo& info() const override { return info_; }

 private:
  using ActivePtr = std::unique_ptr<ActiveRequest>;

  // Before the thread.
  void check(const Request& request) const;
  ActivePtr make_active(Request request, OutputCallback callback);

  // On the engine's thread.
  void loop();
  void take_in(std::vector<ActivePtr> added, const std::vector<RequestId>& cancelled);
  void step();
  void propose_drafts();
  void run_tower(StepPlan& plan);
  StepInputs make_inputs(StepPlan& plan, std::vector<SampledPart>& sampled) const;
  // A step from the moment that it is started until its tokens are known.
  struct StartedStep {
    struct Part {
      StepPart part;
      RequestId request;  // may have ended when the step is finished
      int64_t first_token = 0, first_logits = 0;
      std::optional<std::size_t> choice = {};
    };
    std::vector<Part> parts;
    StepOutputs outputs;
    Choices choices;
  };
  bool can_wait(const std::vector<SampledPart>& sampled, const StepPlan& plan) const;
  void finish(StartedStep step);
  void finish_started();  // the step that was started, if there is one
  void finish_part(const StepPart& part, ActiveRequest& request, std::optional<Chosen> chosen,
                   const StepOutputs& outputs, int64_t first_token);
  void add_tokens(const StepPart& part, ActiveRequest& request, Chosen& chosen);
  void collect_prompt_logprobs(const StepPart& part, ActiveRequest& request, const at::Tensor& logits);
  // What the token means for the request: nothing, or its end. An end token is not shown.
  std::optional<Finish> end_of(ActiveRequest& request, int32_t token, RequestOutput& out, bool& is_shown) const;
  // Callers are told at once or, on a GPU, while the next step runs. The text has the first `shown` tokens.
  void hand_out(ActiveRequest& request, RequestOutput out, int64_t shown = 0);
  void deliver();
  void end(RequestId id, Finish finish, const std::string& error = "");
  void classify(ActiveRequest& request);
  void fail_all(const std::string& error);
  void update_stats();
  void update_summaries();  // once a step
  // Compiles grammars, and then hands the requests to the engine's thread.
  void compile_loop();
  void end_untaken(ActivePtr active, RequestOutput out);  // one that the engine's thread never saw

  // Of adapters. A request keeps the one that it came with, also when that is unloaded meanwhile.
  struct LoadedAdapter {
    std::string name;  // empty: unloaded, and dropped once nobody uses it
    uint64_t prefix_key = 0;
    int64_t users = 0;  // requests that have not ended
  };
  using LoadedAdapters = std::map<int64_t, LoadedAdapter>;         // by the runner's index
  LoadedAdapters::iterator find_adapter(const std::string& name);  // the caller holds the lock
  void release_adapter(const ActiveRequest& request);              // likewise
  void drop_unused_adapters();                                     // on the engine's thread

  std::shared_ptr<BaseModule> model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  EngineOptions options_;
  EngineInfo info_;
  std::optional<Scheduler> scheduler_;
  std::optional<Runner> runner_;
  std::unique_ptr<Drafter> drafter_;
  std::unordered_map<RequestId, ActivePtr> active_;
  struct Delivery {
    ActiveRequest* request;
    ActivePtr ended;  // the request itself, if this is its last
    RequestOutput out;
    int64_t shown;
  };
  std::vector<Delivery> deliveries_;
  bool delivers_late_ = false, looks_ahead_ = false;
  std::optional<StartedStep> started_;

  mutable std::mutex mutex_;
  std::condition_variable changed_, idle_, compile_changed_;
  std::vector<ActivePtr> inbox_;
  std::vector<RequestId> cancelled_;
  std::deque<ActivePtr> to_compile_;
  RequestId compiling_ = 0;                            // of the request whose grammar is being compiled
  std::unordered_set<RequestId> compiling_cancelled_;  // that one, or of to_compile_
  std::vector<std::function<void()>> actions_;
  LoadedAdapters adapters_;
  uint64_t loaded_adapters_ = 0;  // ever
  EngineStats stats_;
  std::vector<RequestSummary> summaries_;
  int64_t outstanding_ = 0;  // submitted and not ended
  int64_t in_scheduler_waiting_ = 0;
  bool refuses_ = false, stops_ = false, is_healthy_ = true;
  RequestId next_id_ = 1;
  std::thread thread_, compile_thread_;
};

}  // namespace easydel::serve
