#include "easydel/serve/client/engine_load.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "easydel/core/error.h"
#include "easydel/serve/engine/engine.h"

namespace easydel::serve {

// The engine's thread writes a record without a lock: it is read only after the request was counted here.
struct EngineLoad::Ended {
  std::mutex mutex;
  std::condition_variable changed;
  int64_t count = 0;

  void add() {
    const std::lock_guard lock(mutex);
    ++count;
    changed.notify_all();
  }
};

EngineLoad::EngineLoad(std::shared_ptr<Engine> engine, EngineLoadOptions options)
    : engine_(std::move(engine)), options_(options), ended_(std::make_shared<Ended>()) {}

EngineLoad::~EngineLoad() = default;

void EngineLoad::start(const LoadRequest& request, LoadRecord& record, double epoch) {
  Request wanted;
  wanted.prompt = request.ids;
  wanted.sampling.temperature = options_.temperature;
  wanted.sampling.ignore_eos = options_.ignore_eos;
  wanted.sampling.max_tokens = request.max_tokens;
  record.start = load_clock() - epoch;
  const auto take = [&record, epoch, ended = ended_](const RequestOutput& output) {
    if (!output.tokens.empty()) record.add_piece(load_clock() - epoch);
    record.text += output.text;
    if (!output.finish) return;
    record.prompt_tokens = output.prompt_tokens;
    record.cached_tokens = output.cached_tokens;
    record.output_tokens = output.output_tokens;
    record.success = *output.finish == Finish::Stop || *output.finish == Finish::Length;
    if (!record.success) record.error = output.error.empty() ? std::string(finish_name(*output.finish)) : output.error;
    ended->add();
  };
  try {
    engine_->submit(std::move(wanted), take);
  } catch (const Error& error) {  // refused: too long, or the queue is full
    record.error = error.what();
    ended_->add();
  }
}

int64_t EngineLoad::wait(double seconds) {
  std::unique_lock lock(ended_->mutex);
  ended_->changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return ended_->count > 0; });
  return std::exchange(ended_->count, 0);
}

}  // namespace easydel::serve
