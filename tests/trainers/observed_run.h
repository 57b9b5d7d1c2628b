// A tiny run, and everything of it that a user can see: for the test that every setting of a trainer acts.
#pragma once

#include <string>

#include "easydel/core/json/json.h"
#include "easydel/trainers/arguments/training_arguments.h"

namespace easydel::testing_support {

// Trains a mixture of experts of some hundred weights for `max_training_steps` (3) on a few rows that have what the
// trainer reads. `settings` are the trainer's, and these for the run itself:
//   "@before": settings of a run in the same directory, before this one
//   "@model": changes of the model's config;  "@dtype": what it computes in;  "@slow": seconds that each step waits
//   "@reference": dpo has a reference model
// The answer has losses, metrics, evaluations, files, log lines, the number of matrix products, threads and checksums
// of batches and weights, but no times and no paths.
Json observe_run(const std::string& trainer_type, const Json& settings);

}  // namespace easydel::testing_support
