// What a run will need, said before it begins.
#include <algorithm>

#include "easydel/core/log.h"
#include "easydel/core/memory.h"
#include "easydel/optim/offload.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/logs/memory_estimate.h"
#include "easydel/trainers/run/trainer_impl.h"

namespace easydel {

void Trainer::Impl::estimate_memory() {
  const int64_t length = args().row_length(options_.trainer_type);
  MemoryEstimateOptions options{
      .tokens = own_rows(minibatch_rows(), parallel()).count * length,
      .accumulates = args().gradient_accumulation_steps > 1,
      .chunk_size = args().lmhead_chunksize.value_or(options_.model->config().memory.lmhead_chunksize.value_or(0))};
  for (const BaseModule* other : options_.objective->other_models())
    options.other_weights += easydel::estimate_memory(*other, {}).weights;
  MemoryEstimate estimate = easydel::estimate_memory(*options_.model, options);
  if (state.opt_state) estimate.optimizer = state.opt_state->nbytes();
  if (const auto along = options_.objective->trained_along()) {
    const MemoryEstimate own = easydel::estimate_memory(*along, {.tokens = options.tokens});
    estimate.weights += own.weights;
    estimate.gradients += own.gradients;
    estimate.activations += own.activations;
    estimate.temporary = std::max(estimate.temporary, own.temporary);
    if (companion_ && companion_->opt_state) estimate.optimizer += companion_->opt_state->nbytes();
  }
  if (args().offload_optimizer)  // the part that is computed, the next and the last
    estimate.optimizer = std::min(estimate.optimizer, 3 * optim::kOffloadPart);
  memory_estimate_ = estimate.peak();
  if (!is_first() || !args().verbose) return;
  log::info("[trainer] estimated memory for rows of ", length, " tokens: ", estimate.to_string(), ".");
  const int64_t needed = memory_estimate_ - estimate.weights - estimate.optimizer;  // what is not there yet
  const auto limit = args().memory_limit
                         ? std::optional(bytes_of_gib(*args().memory_limit) - estimate.weights - estimate.optimizer)
                         : available_memory(device());
  if (limit && needed > *limit)
    log::warning(
        "[trainer] the device may run out of memory. A smaller minibatch (gradient_accumulation_steps), "
        "gradient_checkpointing: nothing_saveable, a smaller max_length or the optimizer adamw_8bit needs less.");
}

}  // namespace easydel
