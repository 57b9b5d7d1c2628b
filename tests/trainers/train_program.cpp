// Trains a model: train_program JOB.json, with model, data, trainer_type, arguments (of the trainer), output, and,
// where they are wanted, other (a reference or a teacher), eval_data, dtype, mesh (axis sizes, on thread ranks)
// and completions: for trainers with rewards what the policy is to have
// written, and for ppo value (a value model, which is written to output/value),
// [{"ids": …, "reward": …}] for each text of a prompt, with "own" (1 or 0 for each token) where tools wrote some.
// Writes the model into output, and a line of metrics for each step to standard output.
#include <iostream>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/data/dataset.h"
#include "easydel/infra/auto_model.h"
#include "easydel/trainers/objectives/distillation/gkd_objective.h"
#include "easydel/trainers/objectives/policy_objective.h"
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

// Completions and rewards from a file, for runs beside a trainer that gets the same.
RolloutFunction fixed_completions(const std::shared_ptr<const Json>& known,
                                  const std::shared_ptr<const AutoTokenizer>& tokenizer, int64_t begin) {
  return [known, tokenizer, begin](const std::vector<std::vector<int64_t>>& prompts, int64_t group, const RandomKey&,
                                   CompletionSink*) {
    RolloutResult result;
    for (const std::vector<int64_t>& prompt : prompts) {
      const std::vector<int32_t> ids(prompt.begin(), prompt.end());
      const Json& given = known->at((*tokenizer)->decode(ids));
      std::vector<Completion> completions;
      for (int64_t i = begin; i < begin + group; ++i) {
        const Json& each = given.at(static_cast<std::size_t>(i));
        Completion completion;
        for (const Json& id : each.at("ids").as_array()) completion.ids.push_back(id.as_int());
        if (const Json* own = each.find("own")) {
          for (const Json& is_own : own->as_array()) completion.own.push_back(is_own.as_double());
        }
        completion.text = each.at("reward").dump();
        completion.is_truncated = completion.ids.back() != 2;
        completions.push_back(std::move(completion));
      }
      result.completions.push_back(std::move(completions));
    }
    return result;
  };
}

// The policy's begin with the first of a prompt, those of its opponent with the second.
PolicyParts fixed_rollouts(const std::string& file, std::shared_ptr<const BaseModule> reference,
                           const std::shared_ptr<const AutoTokenizer>& tokenizer) {
  const auto known = std::make_shared<const Json>(Json::parse_file(file));
  PolicyParts parts{.reference = std::move(reference), .reward_functions = {}};
  parts.rollouts = fixed_completions(known, tokenizer, 0);
  parts.opponent_rollouts = fixed_completions(known, tokenizer, 1);
  parts.reward_functions.emplace_back("given", [](const std::vector<RewardInput>& inputs) {
    RewardScores scores;
    for (const RewardInput& input : inputs) {
      const Json reward = Json::parse(input.completion);
      scores.push_back(reward.is_null() ? std::nullopt : std::optional(reward.as_double()));
    }
    return scores;
  });
  return parts;
}

void train(const Json& job, const std::optional<Mesh>& mesh, bool prints) {
  const std::string type = job.at("trainer_type").as_string(), directory = job.at("model").as_string();
  TrainerOptions options{.trainer_type = type, .arguments = TrainingArguments::from_json(type, job.at("arguments"))};
  const auto other = text_in(job, "other");
  const auto learned_from = other ? open_model(job, *other, TaskType::CausalLM, mesh) : nullptr;
  options.tokenizer = std::make_shared<AutoTokenizer>(AutoTokenizer::from_directory(directory));
  if (type == "gkd" || distils_what_is_written(type)) {
    GkdParts parts{.teacher = learned_from};
    if (const auto fixed = text_in(job, "completions"))
      parts.student_rollouts = fixed_rollouts(*fixed, nullptr, options.tokenizer).rollouts;
    if (const auto fixed = text_in(job, "teacher_completions"))
      parts.teacher_rollouts = fixed_rollouts(*fixed, nullptr, options.tokenizer).rollouts;
    options.objective =
        type == "gkd" ? make_gkd_objective(std::move(parts)) : make_written_objective(type, std::move(parts));
  } else if (const auto fixed = text_in(job, "completions")) {
    PolicyParts parts = fixed_rollouts(*fixed, learned_from, options.tokenizer);
    if (const auto value = text_in(job, "value"))
      parts.value_model = open_model(job, *value, TaskType::SequenceClassification, mesh);
    options.objective = make_policy_objective(type, std::move(parts));
  } else {
    options.objective = make_objective(type, learned_from);
  }
  options.model = open_model(job, directory, options.objective->task(), mesh);
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
  if (const auto value = options.objective->trained_along())
    value->save_pretrained(job.at("output").as_string() + "/value", {.verbose = false});
}

}  // namespace

int main_of(int argc, char** argv) { return testing_support::run_job(argc, argv, "train_program", train); }

}  // namespace easydel

int main(int argc, char** argv) { return easydel::main_of(argc, argv); }
