// Waiting for whole answers.
#include <condition_variable>
#include <mutex>

#include "easydel/serve/engine/engine.h"

namespace easydel::serve {
namespace {

void join_output(RequestOutput& all, const RequestOutput& next) {
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  append(all.tokens, next.tokens);
  append(all.logprobs, next.logprobs);
  append(all.prompt_logprobs, next.prompt_logprobs);
  append(all.embedding, next.embedding);
  all.text += next.text;
  all.finish = next.finish;
  all.is_refusal = next.is_refusal;
  all.stop_reason = next.stop_reason;
  all.error = next.error;
  all.prompt_tokens = next.prompt_tokens;
  all.cached_tokens = next.cached_tokens;
  all.output_tokens = next.output_tokens;
}

}  // namespace

std::vector<RequestOutput> complete_all(Engine& engine, std::vector<Request> requests) {
  std::vector<RequestOutput> outputs(requests.size());
  std::mutex mutex;
  std::condition_variable ended;
  std::size_t missing = requests.size();
  std::vector<RequestId> ids;
  const auto wait = [&] {
    std::unique_lock lock(mutex);
    ended.wait(lock, [&] { return missing == 0; });
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    try {
      ids.push_back(engine.submit(std::move(requests[i]), [&, i](const RequestOutput& next) {
        const std::lock_guard lock(mutex);
        join_output(outputs[i], next);
        if (next.finish && --missing == 0) ended.notify_all();
      }));
    } catch (...) {  // the callbacks of those before refer to what is local here
      {
        const std::lock_guard lock(mutex);
        missing -= requests.size() - i;
      }
      for (const RequestId id : ids) engine.cancel(id);
      wait();
      throw;
    }
  }
  wait();
  return outputs;
}

RequestOutput complete(Engine& engine, Request request) {
  std::vector<Request> one;
  one.push_back(std::move(request));
  return complete_all(engine, std::move(one)).front();
}

}  // namespace easydel::serve
