// Trains a model: train_program JOB.json, with model, data, trainer_type, arguments (of the trainer), output, and,
// where they are wanted, other (a reference or a teacher), eval_data, dtype and mesh (axis sizes, on thread ranks).
// Writes the model into output, and a line of metrics for each step to standard output.
#include <iostream>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/data/dataset.h"
#include "easydel/infra/auto_model.h"
#include "easydel/trainers/trainer.h"
#include "tests/support/job_program.h"

namespace easydel {
namespace {

std::optional<std::string> text_in(const Json& job, const std::string& key) {
  const Json* value = job.find(key);
  return value && !value->is_null() ? std::optional(value->as_string()) : std::nullopt;
}

std::shared_ptr<const data::Dataset> open_data(const std::string& file) {
  return data::Dataset::open({.informs = {{.data_files = {file}}}});
}

std::shared_ptr<BaseModule> open_model(const Json& job, const std::string& directory, TaskType task,
                                       const std::optional<Mesh>& mesh) {
  const DType dtype = parse_dtype(text_in(job, "dtype").value_or("fp32"));
  auto model = load_model(directory, task, {.dtype = dtype, .param_dtype = dtype, .verbose = false});
  if (mesh) model->shard_model({}, *mesh);
  return model;
}

void train(const Json& job, const std::optional<Mesh>& mesh, bool prints) {
  const std::string type = job.at("trainer_type").as_string(), directory = job.at("model").as_string();
  TrainerOptions options{.trainer_type = type, .arguments = TrainingArguments::from_json(type, job.at("arguments"))};
  const auto other = text_in(job, "other");
  const auto learned_from = other ? open_model(job, *other, TaskType::CausalLM, mesh) : nullptr;
  options.objective = make_objective(type, learned_from);
  options.model = open_model(job, directory, options.objective->task(), mesh);
  options.tokenizer = std::make_shared<AutoTokenizer>(AutoTokenizer::from_directory(directory));
  options.train_dataset = open_data(job.at("data").as_string());
  if (const auto eval = text_in(job, "eval_data")) options.eval_dataset = open_data(*eval);
  if (prints) {
    const auto print = [](int64_t step, const Metrics& metrics) {
      Json line = Json::object({{"step", step}});
      for (const auto& [name, value] : metrics) line[name] = value;
      std::cout << line.dump() + "\n" << std::flush;
    };
    options.hooks.after_step = print;
    options.hooks.on_evaluate = print;
  }
  Trainer trainer(options);
  trainer.train();
  options.model->save_pretrained(job.at("output").as_string(), {.verbose = false});
}

}  // namespace

int main_of(int argc, char** argv) { return testing_support::run_job(argc, argv, "train_program", train); }

}  // namespace easydel

int main(int argc, char** argv) { return easydel::main_of(argc, argv); }
