// Runs the steps of a scheduler on a model and its paged cache. On a mesh rank 0 tells the others what to compute.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "easydel/caching/ragged_pages_cache.h"
#include "easydel/serve/engine/scheduler.h"

namespace easydel {
class BaseModule;
}

namespace easydel::serve {

// The tokens of a step, one sequence after the other, and of which of them logits or hidden states are wanted.
struct StepInputs {
  std::vector<int64_t> tokens;
  std::vector<RaggedBatch::Part> parts;
  std::vector<int64_t> adapters;      // of each part: an index, or -1
  std::vector<int64_t> logit_places;  // in the row of tokens
  bool wants_hidden = false;

  std::vector<int64_t> to_numbers() const;  // for the other ranks
  static StepInputs from_numbers(const std::vector<int64_t>& numbers);
};

struct StepOutputs {
  at::Tensor logits;  // [places, V]
  at::Tensor hidden;  // [T, D], if wanted
};

class DecodeGraphs;

class Runner {
 public:
  // graph_batch: the most sequences of a decode step that is captured in a CUDA graph; 0: none is.
  Runner(std::shared_ptr<const BaseModule> model, std::shared_ptr<RaggedPagesCache> cache, int64_t graph_batch = 0);
  ~Runner();

  StepOutputs run(const StepInputs& inputs);
  // Ranks other than 0: takes part in the steps of rank 0 until that stops.
  void follow();
  void stop_followers() const;
  void stay_in_touch() const;  // while there is nothing to do, so that the others do not time out
  bool is_leader() const;
  bool is_shared() const;  // by several ranks

  const RaggedPagesCache& cache() const { return *cache_; }

 private:
  void send(const std::vector<int64_t>& numbers) const;
  StepOutputs compute(const StepInputs& inputs);

  std::shared_ptr<const BaseModule> model_;
  std::shared_ptr<RaggedPagesCache> cache_;
  std::unique_ptr<DecodeGraphs> graphs_;
};

}  // namespace easydel::serve
