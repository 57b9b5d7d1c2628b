// The prompts of a generation, which ranks have different ones of, in an order that does not depend on their number.
#pragma once

#include <cstdint>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/trainers/objectives/objective.h"

namespace easydel {

// A prompt of a generation, whichever rank has it.
struct Prompt {
  std::vector<int64_t> ids;
  Json row;  // what rewards look at
};

// Where the rows of a rank are among those of all: in each minibatch its part follows those of the ranks before.
struct PromptDeal {
  int64_t parts = 1, index = 0, minibatches = 1, each = 1;  // each: prompts of a rank in a minibatch

  // Of this rank's batches of a generation.
  PromptDeal(const std::vector<std::vector<data::Example>>& batches, const GenerationContext& context,
             const Parallel* parallel);

  int64_t of_step() const { return parts * each * minibatches; }
  // Of this rank's example `own` of a batch.
  std::size_t place(std::size_t batch, int64_t own) const { return place(batch, index, own); }
  std::size_t place(std::size_t batch, int64_t part, int64_t own) const;
};

// Of all ranks, which call it together: the examples' prompt_ids and their rows.
std::vector<Prompt> gather_prompts(const std::vector<std::vector<data::Example>>& batches, const PromptDeal& deal,
                                   const Parallel* parallel, at::Device device);

}  // namespace easydel
