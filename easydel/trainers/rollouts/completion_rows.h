// Completions as rows of a batch.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "easydel/trainers/objectives/objective.h"
#include "easydel/trainers/rollouts/rollouts.h"

namespace easydel {

// Those that the policy wrote; 0 for one that is masked because it did not end.
double counted_tokens(const Completion& completion, const RolloutArguments& rollout);
// A prompt and its completion, which has the labels. Its series are "mask" and, where the sampling has them,
// "sampling_logps"; place t of a series belongs to the token t + 1, which is predicted there.
BatchRow completion_row(const std::vector<int64_t>& prompt, const Completion& completion,
                        const RolloutArguments& rollout);
// The series `name` of what `score` gives each token of a minibatch, [rows, T]. All ranks call it together.
void add_token_series(const std::string& name, GeneratedRows& generated, const Parallel* parallel,
                      const GenerationContext& context, const std::function<at::Tensor(const Batch&)>& score);
// The series `name`: log-probabilities that `scorer` gives the rows' tokens. All ranks call it together.
void add_logps_series(const std::string& name, GeneratedRows& generated, const BaseModule& scorer,
                      const BaseModule& model, const GenerationContext& context, double temperature);
// The series "reference_logps": by the reference, or if there is none by the model without its adapters.
void add_reference_logps(GeneratedRows& generated, const BaseModule* reference, BaseModule& model,
                         const GenerationContext& context, double temperature);
// ConfigError, which names the trainer, when completions are as long as the model's context.
void require_room(const BaseModule& model, const RolloutArguments& rollout, const std::string& trainer_type);
// What the random numbers of a generation depend on.
RandomKey rollout_key(const GenerationContext& context);

}  // namespace easydel
