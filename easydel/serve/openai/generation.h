// The requests to the engine behind one answer: submitted together, watched, cancelled when the client leaves.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "easydel/serve/engine/request.h"
#include "easydel/serve/openai/context.h"

namespace easydel::serve {

// What an answer does with outputs. The calls never overlap; they come on the engine's thread, or on the one that
// called start_generation for outputs that came before it returned.
class GenerationSink {
 public:
  virtual ~GenerationSink() = default;
  // False: the client takes no more, and the rest is cancelled.
  virtual bool output(std::size_t index, const RequestOutput& output) = 0;
  virtual void finished() = 0;                     // all requests have ended, none with an error
  virtual void failed(const ApiError& error) = 0;  // once, instead of finished(); the other requests are cancelled
};

// Throws what Engine::submit throws, with none of the requests left behind. Observes the metrics, enforces
// request_timeout and cancels when the client of the call leaves.
void start_generation(const ApiCall& call, std::vector<Request> requests, std::shared_ptr<GenerationSink> sink);

}  // namespace easydel::serve
