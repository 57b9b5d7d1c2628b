#include "easydel/serve/openai/generation.h"

#include <optional>

namespace easydel::serve {
namespace {

class GenerationGroup : public std::enable_shared_from_this<GenerationGroup> {
 public:
  GenerationGroup(const ApiCall& call, std::size_t count, std::shared_ptr<GenerationSink> sink)
      : service_(call.service), sink_(std::move(sink)), times_(count), open_(count) {
    for (RequestTimes& times : times_) times.arrived = call.arrived;
  }

  void submit(std::vector<Request> requests) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      try {
        const RequestId id = service_->engine->submit(
            std::move(requests[i]), [self = shared_from_this(), i](const RequestOutput& out) { self->take(i, out); });
        const std::lock_guard lock(mutex_);
        ids_.push_back(id);
      } catch (...) {
        {
          const std::lock_guard lock(mutex_);
          state_ = State::Over;
          pending_.clear();
        }
        cancel_all();
        throw;
      }
    }
  }

  // Outputs that came while requests were still being submitted go first.
  void begin(const ApiCall& call) {
    const auto timeout = service_->options.request_timeout;
    if (timeout.count() > 0) {
      const uint64_t timer = service_->workers.post_at(call.arrived + timeout, [weak = weak_from_this()] {
        const auto self = weak.lock();
        if (self) self->fail(ApiError(504, "the answer took longer than the server allows.", "", "timeout"));
      });
      const std::lock_guard lock(mutex_);
      timer_ = timer;
    }
    {
      const std::lock_guard lock(mutex_);
      if (state_ == State::Submitting) state_ = State::Running;  // unless the time is over already
      for (auto& [index, output] : std::exchange(pending_, {})) deliver(index, output);
    }
    call.reply.on_close([weak = weak_from_this()] {
      if (auto self = weak.lock()) self->leave();
    });
  }

  // The client has left: nothing is sent any more.
  void leave() {
    {
      const std::lock_guard lock(mutex_);
      if (state_ == State::Over) return;
      state_ = State::Over;
    }
    cancel_all();
  }

 private:
  enum class State { Submitting, Running, Over };

  void take(std::size_t index, const RequestOutput& output) {
    observe(index, output);
    const std::lock_guard lock(mutex_);
    if (state_ == State::Submitting) {
      pending_.emplace_back(index, output);
    } else {
      deliver(index, output);
    }
  }

  // Outputs of one request never overlap, so its times need no lock.
  void observe(std::size_t index, const RequestOutput& output) {
    const auto now = Metrics::Clock::now();
    RequestTimes& times = times_[index];
    times.prompt_tokens = output.prompt_tokens;
    times.output_tokens = output.output_tokens;
    if (!output.tokens.empty()) service_->metrics.token(times, static_cast<int64_t>(output.tokens.size()), now);
    if (output.finish) service_->metrics.finished(times, finish_name(*output.finish), now);
  }

  // With the lock held.
  void deliver(std::size_t index, const RequestOutput& output) {
    if (state_ == State::Over) return;
    if (output.finish == Finish::Error) {
      return end_with(
          ApiError(output.is_refusal ? 400 : 500, output.error.empty() ? "the engine failed" : output.error));
    }
    if (output.finish == Finish::Cancelled) {
      return end_with(ApiError(503, "the request was cancelled, because the server is stopping."));
    }
    try {
      pass_on(index, output);
    } catch (...) {  // nothing may leave the engine's callback
      end_with(to_api_error(std::current_exception()));
    }
  }

  void pass_on(std::size_t index, const RequestOutput& output) {
    if (!sink_->output(index, output)) {
      state_ = State::Over;
      return cancel_later();
    }
    if (!output.finish || --open_ > 0) return;
    state_ = State::Over;
    stop_timer();
    sink_->finished();
  }

  void end_with(const ApiError& error) {
    state_ = State::Over;
    sink_->failed(error);
    cancel_later();
  }

  void fail(const ApiError& error) {
    const std::lock_guard lock(mutex_);
    if (state_ != State::Over) end_with(error);
  }

  // Not from the engine's own thread, which may hold its locks while it calls back.
  void cancel_later() {
    service_->workers.post([self = shared_from_this()] { self->cancel_all(); });
  }

  void cancel_all() {
    std::vector<RequestId> ids;
    {
      const std::lock_guard lock(mutex_);
      ids = ids_;
      stop_timer();
    }
    for (const RequestId id : ids) service_->engine->cancel(id);
  }

  void stop_timer() {
    if (timer_) service_->workers.cancel(*timer_);
    timer_.reset();
  }

  std::shared_ptr<ServiceContext> service_;
  std::shared_ptr<GenerationSink> sink_;
  std::mutex mutex_;
  State state_ = State::Submitting;
  std::vector<RequestId> ids_;
  std::vector<std::pair<std::size_t, RequestOutput>> pending_;
  std::vector<RequestTimes> times_;
  std::size_t open_;  // requests that have not ended
  std::optional<uint64_t> timer_;
};

}  // namespace

void start_generation(const ApiCall& call, std::vector<Request> requests, std::shared_ptr<GenerationSink> sink) {
  const auto group = std::make_shared<GenerationGroup>(call, requests.size(), std::move(sink));
  group->submit(std::move(requests));
  group->begin(call);
}

}  // namespace easydel::serve
