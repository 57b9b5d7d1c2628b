// Guesses of the next tokens, which a step verifies all at once. A wrong guess costs time and never changes an answer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "easydel/serve/engine/active_request.h"

namespace easydel::serve {

struct EngineOptions;

class Runner;

class Drafter {
 public:
  virtual ~Drafter() = default;
  // Sets Sequence::drafts of requests whose next step chooses a token; at most limits[i] of requests[i].
  virtual void propose(const std::vector<ActiveRequest*>& requests, const std::vector<int64_t>& limits) = 0;
  virtual void forget(RequestId) {}  // the request has ended
  // Of a draft model, if there is one: on a mesh the other ranks follow it.
  virtual Runner* runner() { return nullptr; }
};

// What followed the last time that the sequence had its last tokens, the longest such end first.
std::vector<int32_t> find_ngram(std::span<const int32_t> tokens, int64_t shortest, int64_t longest, int64_t count);

// By EngineOptions::speculative_method; null without speculation. `page_size` and `num_pages` are those of the cache:
// a draft model keeps its keys on pages of the same numbers. On a mesh it is whole on every rank, of which rank 0 runs
// it, or on the mesh of `model`.
std::unique_ptr<Drafter> make_drafter(const EngineOptions& options, const BaseModule& model, int64_t page_size,
                                      int64_t num_pages, int64_t max_model_len);

}  // namespace easydel::serve
