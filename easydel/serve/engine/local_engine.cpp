#include "easydel/serve/engine/local_engine.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <future>

#include "easydel/core/log.h"
#include "easydel/infra/decoder/accepts_images.h"
#include "easydel/serve/engine/between_steps.h"
#include "easydel/serve/engine/forget_prefixes.h"
#include "easydel/sharding/world/world.h"

namespace easydel::serve {
namespace {

constexpr std::size_t kSummaries = 64;

LocalEngine& local_engine(Engine& engine, const char* what) {
  auto* found = dynamic_cast<LocalEngine*>(&engine);
  require<Error>(found != nullptr, "[engine] only an engine of one model can ", what, ".");
  return *found;
}

}  // namespace

RequestId LocalEngine::submit(Request request, OutputCallback callback) {
  check(request);
  ActivePtr active = make_active(std::move(request), std::move(callback));
  std::unique_lock lock(mutex_);
  require<Error>(is_healthy_, "[engine] it has failed and accepts no more requests.");
  require<Error>(!refuses_, "[engine] it is shutting down and accepts no more requests.");
  const int64_t waiting = static_cast<int64_t>(inbox_.size() + to_compile_.size()) + in_scheduler_waiting_;
  require<QueueFullError>(options_.max_waiting == 0 || waiting < options_.max_waiting, "[engine] ", waiting,
                          " requests are already waiting, as many as max_waiting allows.");
  if (const std::string& adapter = active->request.adapter; !adapter.empty()) {
    const auto found = find_adapter(adapter);
    require<ConfigError>(found != adapters_.end(), "[engine] there is no adapter \"", adapter, "\".");
    active->adapter = found->first;
    active->prefix_key = found->second.prefix_key;
    ++found->second.users;
  }
  const RequestId id = next_id_++;
  active->id = id;
  active->key = RandomKey(active->sampling().seed.value_or(RandomKey(options_.seed).fold(id).bits()));
  ++outstanding_;
  if (active->sampling().grammar) {
    to_compile_.push_back(std::move(active));
    compile_changed_.notify_one();
  } else {
    inbox_.push_back(std::move(active));
    changed_.notify_one();
  }
  return id;
}

void LocalEngine::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  const bool is_compiling = id == compiling_ || std::any_of(to_compile_.begin(), to_compile_.end(),
                                                            [&](const ActivePtr& each) { return each->id == id; });
  if (is_compiling) {
    compiling_cancelled_.insert(id);
    return;
  }
  cancelled_.push_back(id);
  changed_.notify_one();
}

bool LocalEngine::drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  refuses_ = true;
  if (runner_ && runner_->is_shared() && !runner_->is_leader())
    return idle_.wait_for(lock, limit, [&] { return stops_; });
  return idle_.wait_for(lock, limit, [&] { return outstanding_ == 0; });
}

void LocalEngine::forget_prefixes() {
  if (scheduler_) between_steps([&] { scheduler_->forget_prefixes(); });
}

void forget_prefixes(Engine& engine) { local_engine(engine, "forget its prefixes").forget_prefixes(); }

void between_steps(Engine& engine, const std::function<void()>& action) {
  local_engine(engine, "act between its steps").between_steps(action);
}

EngineStats LocalEngine::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.waiting += static_cast<int64_t>(inbox_.size() + to_compile_.size());
  stats.healthy = is_healthy_;
  return stats;
}

std::vector<RequestSummary> LocalEngine::summaries() const {
  const std::lock_guard lock(mutex_);
  return summaries_;
}

void LocalEngine::compile_loop() {
  while (true) {
    ActivePtr active;
    bool is_cancelled = false;
    {
      std::unique_lock lock(mutex_);
      compile_changed_.wait(lock, [&] { return stops_ || !to_compile_.empty(); });
      if (stops_) return;
      active = std::move(to_compile_.front());
      to_compile_.pop_front();
      compiling_ = active->id;
      is_cancelled = compiling_cancelled_.contains(compiling_);
    }
    std::string error;
    try {
      if (!is_cancelled) active->matcher = options_.grammar->compile(*active->sampling().grammar)->matcher();
    } catch (const std::exception& problem) {
      error = problem.what();
    }
    {
      const std::lock_guard lock(mutex_);
      compiling_ = 0;
      is_cancelled = compiling_cancelled_.erase(active->id) > 0;
      if (!is_cancelled && error.empty()) {
        inbox_.push_back(std::move(active));
        changed_.notify_one();
        continue;
      }
    }
    RequestOutput out;
    out.finish = is_cancelled ? Finish::Cancelled : Finish::Error;
    out.is_refusal = !is_cancelled;
    if (!is_cancelled) out.error = error;
    end_untaken(std::move(active), std::move(out));
  }
}

void LocalEngine::end_untaken(ActivePtr active, RequestOutput out) {
  out.prompt_tokens = static_cast<int64_t>(active->request.prompt.size());
  active->callback(out);
  active->callback = nullptr;  // see deliver
  const std::lock_guard lock(mutex_);
  release_adapter(*active);
  ++(out.finish == Finish::Cancelled ? stats_.finished_cancelled : stats_.finished_error);
  --outstanding_;
  idle_.notify_all();
}

void LocalEngine::between_steps(const std::function<void()>& action) {
  std::promise<void> done;
  {
    const std::lock_guard lock(mutex_);
    require<Error>(!stops_, "[engine] it is shutting down.");
    actions_.push_back([&] {
      try {
        action();
        done.set_value();
      } catch (...) {
        done.set_exception(std::current_exception());
      }
    });
  }
  changed_.notify_one();
  done.get_future().get();
}

void LocalEngine::loop() {
  const auto heartbeat = default_collective_timeout() / 4;
  // What fails on the device fails for all that run.
  const auto attempt = [&](const auto& act) {
    try {
      act();
    } catch (const std::exception& error) {
      log::error("[engine] a step failed: ", error.what());
      {
        const std::lock_guard lock(mutex_);
        is_healthy_ = false;
      }
      fail_all(error.what());
    }
  };
  while (true) {
    if (!scheduler_ || !scheduler_->has_work()) deliver();
    std::vector<ActivePtr> added;
    std::vector<RequestId> cancelled;
    std::vector<std::function<void()>> actions;
    bool stops = false;
    {
      std::unique_lock lock(mutex_);
      const bool woken = changed_.wait_for(lock, heartbeat, [&] {
        return stops_ || !inbox_.empty() || !cancelled_.empty() || !actions_.empty() ||
               (scheduler_ && scheduler_->has_work());
      });
      if (!woken) {
        lock.unlock();
        if (runner_) runner_->stay_in_touch();
        continue;
      }
      added.swap(inbox_);
      in_scheduler_waiting_ += static_cast<int64_t>(added.size());  // until the next update_stats
      cancelled.swap(cancelled_);
      actions.swap(actions_);
      stops = stops_;
    }
    if (!actions.empty()) attempt([&] { finish_started(); });  // they may change what it reads
    for (const auto& action : actions) action();
    take_in(std::move(added), cancelled);
    if (stops) {
      fail_all(kShutDown);
      break;
    }
    if (scheduler_) {
      attempt([&] {
        if (scheduler_->has_work()) step();
        drop_unused_adapters();
      });
    }
    update_stats();
    update_summaries();
  }
  if (runner_) runner_->stop_followers();
}

void LocalEngine::take_in(std::vector<ActivePtr> added, const std::vector<RequestId>& cancelled) {
  for (ActivePtr& request : added) {
    const RequestId id = request->id;
    if (std::find(cancelled.begin(), cancelled.end(), id) == cancelled.end() &&
        request->request.kind != RequestKind::Classify) {
      auto sequence = std::make_unique<Sequence>();
      sequence->id = id;
      sequence->tokens = request->request.prompt;
      sequence->prompt_tokens = sequence->length();
      sequence->max_length = request->max_length;
      sequence->priority = request->request.priority;
      sequence->arrival = id;
      sequence->prefix_key = request->prefix_key;
      sequence->images = request->image_spans;
      sequence->whole_images = info_.accepts_images && dynamic_cast<const AcceptsImages&>(*model_).needs_whole_images();
      sequence->uses_prefixes = !request->wants_all_logits();
      request->sequence = sequence.get();
      scheduler_->add(std::move(sequence));
    }
    ActiveRequest& active = *(active_[id] = std::move(request));
    if (!active.sequence && active.request.kind == RequestKind::Classify) classify(active);
  }
  for (const RequestId id : cancelled) end(id, Finish::Cancelled);
}

void LocalEngine::fail_all(const std::string& error) {
  started_.reset();
  std::vector<RequestId> ids;
  for (const auto& entry : active_) ids.push_back(entry.first);
  for (const RequestId id : ids) end(id, Finish::Error, error);
  deliver();
  update_stats();
  update_summaries();
}

void LocalEngine::update_stats() {
  const std::lock_guard lock(mutex_);
  if (!scheduler_) return;
  stats_.running = scheduler_->running();
  stats_.waiting = in_scheduler_waiting_ = scheduler_->waiting();
  stats_.pages = scheduler_->pool().pages();
  stats_.free_pages = scheduler_->pool().free_pages();
  stats_.prefix_queries = scheduler_->prefix_queries();
  stats_.prefix_hits = scheduler_->prefix_hits();
  stats_.preemptions = scheduler_->preemptions();
}

void LocalEngine::update_summaries() {
  if (!scheduler_) return;
  std::vector<RequestSummary> summaries;
  scheduler_->for_each(
      [&](const Sequence& sequence, bool is_running) {
        const auto found = active_.find(sequence.id);
        if (found == active_.end()) return;
        summaries.push_back({sequence.id, is_running, sequence.prompt_tokens,
                             sequence.length() - sequence.prompt_tokens, found->second->arrived});
      },
      kSummaries);
  const std::lock_guard lock(mutex_);
  summaries_.swap(summaries);
}

void LocalEngine::end(RequestId id, Finish finish, const std::string& error) {
  const auto found = active_.find(id);
  if (found == active_.end()) return;
  RequestOutput out;
  out.finish = finish;
  out.error = error;
  hand_out(*found->second, std::move(out));
}

void LocalEngine::hand_out(ActiveRequest& request, RequestOutput out, int64_t shown) {
  out.prompt_tokens = static_cast<int64_t>(request.request.prompt.size());
  if (request.sequence) {
    out.cached_tokens = request.sequence->cached_tokens;
    out.output_tokens = request.output_tokens();
  }
  ActivePtr ended;
  if (out.finish) {  // it is forgotten, and its pages are free
    const RequestId id = request.id;
    if (scheduler_) scheduler_->remove(id);
    request.sequence = nullptr;
    if (drafter_) drafter_->forget(id);
    ended = std::move(active_.at(id));
    active_.erase(id);
    update_stats();
  }
  deliveries_.push_back({&request, std::move(ended), std::move(out), shown});
  if (!delivers_late_) deliver();
}

void LocalEngine::deliver() {
  std::vector<Delivery> deliveries;
  deliveries.swap(deliveries_);
  for (auto& [request, ended, out, shown] : deliveries) {
    if (request->text && request->sampling().stop.empty()) {
      for (int64_t i = 0; i < shown; ++i) out.text += request->text->add(out.tokens[static_cast<std::size_t>(i)]);
    }
    if (ended && request->text && out.finish != Finish::Error) out.text += request->text->finish();
    request->callback(out);
    if (!ended) continue;
    ended->callback = nullptr;  // what it holds may own this engine, whose owner may let go of it once all have ended
    const std::lock_guard lock(mutex_);
    int64_t* const counts[] = {&stats_.finished_stop, &stats_.finished_length, &stats_.finished_cancelled,
                               &stats_.finished_error};
    release_adapter(*ended);
    ++*counts[static_cast<std::size_t>(*out.finish)];
    --outstanding_;
    idle_.notify_all();
  }
}

void LocalEngine::classify(ActiveRequest& request) {
  const c10::InferenceMode guard;
  RequestOutput out;
  try {
    ModelInputs inputs;
    const at::Device device = model_->named_parameters().front().parameter->value().device();
    inputs.input_ids = at::tensor(request.request.prompt, at::kInt).to(device, at::kLong).unsqueeze(0);
    const at::Tensor logits = (*model_)(inputs).logits.flatten().to(at::kCPU, at::kFloat).contiguous();
    out.embedding.assign(logits.const_data_ptr<float>(), logits.const_data_ptr<float>() + logits.numel());
    out.finish = Finish::Stop;
  } catch (const std::exception& error) {
    out.finish = Finish::Error;
    out.error = error.what();
  }
  hand_out(request, std::move(out));
}

std::shared_ptr<Engine> make_engine(std::shared_ptr<BaseModule> model, std::shared_ptr<const Tokenizer> tokenizer,
                                    const EngineOptions& options) {
  return std::make_shared<LocalEngine>(std::move(model), std::move(tokenizer), options);
}

}  // namespace easydel::serve
