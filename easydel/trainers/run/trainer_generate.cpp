// Rows that the model writes itself, and trains on for some steps.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/run/row_json.h"
#include "easydel/trainers/run/trainer_impl.h"

namespace easydel {
namespace {

constexpr const char* kFile = "rollouts.json";

}  // namespace

void Trainer::Impl::generate() {
  const int64_t batches = args().rollout.steps_per_generation;
  std::vector<std::vector<data::Example>> examples;
  for (int64_t i = 0; i < batches; ++i) examples.push_back(loader_->next());
  generated_ = options_.objective->generate(options_.model, examples,
                                            {.arguments = args(),
                                             .tokenizer = *options_.tokenizer,
                                             .batch = batch_options(minibatch_rows(), args()),
                                             .step = state.step});
  generated_step_ = 0;
}

std::vector<BatchRow> Trainer::Impl::take_generated() {
  if (generated_.steps.empty() || generated_step_ == options_.objective->steps_of_generation(args())) generate();
  return generated_.steps[static_cast<std::size_t>(generated_step_++) % generated_.steps.size()];
}

// This rank's rows, where steps are left that will be trained on them.
Json Trainer::Impl::generated_file() const {
  if (generated_.steps.empty() || generated_step_ == options_.objective->steps_of_generation(args())) return {};
  Json steps = Json::array();
  for (const std::vector<BatchRow>& rows : generated_.steps) {
    Json list = Json::array();
    for (const BatchRow& row : rows) list.push_back(row_to_json(row));
    steps.push_back(std::move(list));
  }
  return Json::object({{"step", generated_step_}, {"steps", std::move(steps)}});
}

void Trainer::Impl::restore_generated(const std::filesystem::path& checkpoint) {
  if (!std::filesystem::exists(checkpoint / kFile)) return;
  const Json ranks = Json::parse_file((checkpoint / kFile).string());
  const int64_t parts = parallel() ? parallel()->mesh().size(parallel()->batch()) : 1;
  require<ConfigError>(static_cast<int64_t>(ranks.size()) == parts, "[resume_from] ", checkpoint.string(),
                       " is between two generations of ", ranks.size(), " ranks; this run has ", parts,
                       ". Resume on the same mesh, or from the checkpoint of a step that ends a generation.");
  const Json& own = ranks.at(static_cast<std::size_t>(parallel() ? parallel()->mesh().index(parallel()->batch()) : 0));
  generated_ = {};
  generated_step_ = own.at("step").as_int();
  for (const Json& rows : own.at("steps").as_array()) {
    std::vector<BatchRow> step;
    for (const Json& row : rows.as_array()) step.push_back(row_from_json(row));
    generated_.steps.push_back(std::move(step));
  }
}

}  // namespace easydel
