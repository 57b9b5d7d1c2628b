// easydel elarge: a run described by a YAML file. easydel train: the common case, with flags.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/options/device_options.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/cli/terminal/help.h"
#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/elarge/config/key_table.h"
#include "easydel/elarge/elarge_model.h"
#include "easydel/elarge/eval/evaluate.h"
#include "easydel/serve/server.h"
#include "easydel/sharding/world/world.h"
#include "easydel/trainers/trainer.h"

namespace easydel::cli {
namespace {

void print_result(const TrainResult& result, bool json) {
  if (World::current()->rank() != 0) return;
  if (json) {
    Json metrics = Json::object();
    for (const auto& [name, value] : result.metrics) metrics[name] = value;
    return print_json(Json::object({{"step", result.step},
                                    {"stopped_by", to_string(result.stopped_by)},
                                    {"checkpoint", result.checkpoint.string()},
                                    {"report", result.report.string()},
                                    {"metrics", metrics}}));
  }
  std::vector<std::vector<std::string>> rows{{"steps", concat(result.step)},
                                             {"ended by", to_string(result.stopped_by)}};
  if (const auto loss = result.metrics.find("loss"); loss != result.metrics.end())
    rows.push_back({"loss", concat(loss->second)});
  if (const auto reward = result.metrics.find("reward"); reward != result.metrics.end())
    rows.push_back({"reward", concat(reward->second)});
  if (const auto loss = result.metrics.find("eval_loss"); loss != result.metrics.end())
    rows.push_back({"eval loss", concat(loss->second)});
  if (!result.checkpoint.empty()) rows.push_back({"checkpoint", result.checkpoint.string()});
  if (!result.report.empty()) rows.push_back({"report", result.report.string()});
  print_table(rows);
}

// A run stopped by a signal was saved, and the process exits as if killed by the signal: no further action runs.
void run_training(ELargeModel& model, bool json) {
  const TrainResult result = model.train();
  print_result(result, json);
  if (const int status = exit_status(result.stopped_by)) throw ExitStatus(status);
}

EvalArguments to_eval_arguments(const Json& parameters) {
  EvalArguments arguments;
  if (const Json* tasks = parameters.find("tasks")) {
    if (tasks->is_string()) arguments.tasks.push_back(tasks->as_string());
    for (std::size_t i = 0; tasks->is_array() && i < tasks->size(); ++i)
      arguments.tasks.push_back(tasks->at(i).as_string());
  }
  if (const Json* shots = parameters.find("num_fewshot"); shots && !shots->is_null())
    arguments.num_fewshot = shots->as_int();
  if (const Json* path = parameters.find("output_path"); path && path->is_string())
    arguments.output_path = path->as_string();
  return arguments;
}

void run_action(ELargeModel& model, const ElargeAction& action, bool json) {
  const auto path = [&] { return std::filesystem::path(action.parameters.at("path").as_string()); };
  if (action.name == "validate") {
    model.validate();
    std::cout << "the config is valid\n";
  } else if (action.name == "print") {
    std::cout << model.summary() << "\n";
  } else if (action.name == "dump_config") {
    std::cout << model.config().dump();
  } else if (action.name == "to_json") {
    model.to_json(path());
  } else if (action.name == "to_yaml") {
    model.to_yaml(path());
  } else if (action.name == "train") {
    run_training(model, json);
  } else if (action.name == "eval") {
    const Json results = model.eval(to_eval_arguments(action.parameters));
    const Json* prints = action.parameters.find("print_results");
    if (results.is_null() || (prints && *prints == Json(false))) return;
    if (json) return print_json(results);
    print_table(eval_table(results));
  } else if (action.name == "serve") {
    if (!model.serve(action.parameters)) throw ExitStatus(1);
  } else {
    fail<NotSupportedError>(model.config().where(action.path), ": the action \"", action.name,
                            "\" is not supported yet.");
  }
}

// --device, --mesh and --devices override the config.
ELargeModel on_devices(ELargeConfig config, const DeviceOptions& options) {
  if (!options.device.empty()) config.set({"loader", "device"}, options.device);
  if (!options.mesh.empty()) config.set({"sharding", "axis_dims"}, options.mesh);
  config.validate();
  ELargeModel model(std::move(config));
  if (!options.names_a_mesh()) return model;
  const int64_t ranks = rank_count(options);
  require_threads_possible(options, ranks, model.config().compute().device.is_cpu());
  return model.set_devices(ranks);
}

void print_notes(const ELargeConfig& config, bool with_trainer) {
  if (World::current()->rank() != 0) return;
  for (const std::string& note : config.notes(with_trainer)) log::warning(note);
}

struct ElargeOptions {
  std::string config;
  std::vector<std::string> changes;
  DeviceOptions devices;
  bool dry_run = false, json = false, keys = false;
};

void run(const ElargeOptions& options) {
  if (options.keys) {
    std::cout << elarge_key_table();
    return;
  }
  require<UsageError>(!options.config.empty(), "a YAML or JSON file is needed: easydel elarge run.yaml.");
  ELargeConfig given = ELargeConfig::from_file(options.config);
  for (const std::string& change : options.changes) given.set(change);
  ELargeModel model = on_devices(std::move(given), options.devices);
  const ELargeConfig& config = model.config();
  print_notes(config, options.dry_run);
  const std::vector<ElargeAction> actions = config.actions();
  for (const ElargeAction& action : actions) {
    if (action.name != "eval") continue;
    config.located({}, action.path, [&] { model.check_tasks(to_eval_arguments(action.parameters)); });
  }
  if (options.dry_run) {
    if (World::current()->rank() != 0) return;
    std::cout << config.dump() << "\n";
    for (const ElargeAction& action : actions) std::cout << "would run: " << action.name << "\n";
    return;
  }
  // The server waits for signals that no thread may take, and so they are blocked before there are threads. A run that
  // trains first handles them itself.
  const auto is_any = [&](const auto&... names) {
    return std::any_of(actions.begin(), actions.end(),
                       [&](const ElargeAction& action) { return ((action.name == names) || ...); });
  };
  if (is_any("serve") && !is_any("train", "eval")) serve::block_stop_signals();
  for (const ElargeAction& action : actions) run_action(model, action, options.json);
}

struct TrainOptions {
  std::string model, tokenizer, output = "checkpoints", trainer = "sft", dtype, param_dtype, reference, teacher, resume;
  std::string reward_model, value_model;
  std::vector<std::string> data, eval_data, changes, rewards, trackers;
  std::optional<std::string> dashboard;  // a port, or empty
  DeviceOptions devices;
  std::optional<int64_t> zero_stage;
  std::optional<int64_t> steps, epochs, batch, accumulation, length, save_steps, eval_steps, warmup;
  std::optional<double> learning_rate, lora_alpha;
  std::optional<int64_t> lora_rank;
  std::string field, scheduler, optimizer, lora_pattern, profile, fp8;
  bool packing = false, padding_free = false, group_by_length = false, no_shuffle = false, dry_run = false,
       json = false;
};

Json informs(const std::vector<std::string>& files, const std::string& field) {
  Json inform = Json::object({{"data_files", files}});
  if (!field.empty()) inform["content_field"] = field;
  return Json::object({{"informs", Json::array({inform})}});
}

Json to_config(const TrainOptions& o) {
  Json json = Json::object();
  json["model"] = Json::object({{"name_or_path", o.model}});
  if (!o.tokenizer.empty()) json["model"]["tokenizer"] = o.tokenizer;
  if (!o.reference.empty()) json["reference_model"] = Json::object({{"name_or_path", o.reference}});
  if (!o.reward_model.empty()) json["reward_model"] = Json::object({{"name_or_path", o.reward_model}});
  if (!o.value_model.empty()) json["value_model"] = Json::object({{"name_or_path", o.value_model}});
  if (!o.teacher.empty()) json["teacher_model"] = Json::object({{"name_or_path", o.teacher}});
  if (!o.dtype.empty()) json["loader"]["dtype"] = o.dtype;
  if (!o.param_dtype.empty()) json["loader"]["param_dtype"] = o.param_dtype;
  if (o.zero_stage) json["sharding"]["zero_stage"] = *o.zero_stage;
  json["mixture"] = informs(o.data, o.field);
  if (!o.eval_data.empty()) json["eval_mixture"] = informs(o.eval_data, o.field);
  Json trainer = Json::object({{"trainer_type", o.trainer}, {"save_directory", o.output}});
  const auto put = [&](const char* key, const auto& value) {
    if (value) trainer[key] = *value;
  };
  put("max_training_steps", o.steps);
  put("num_train_epochs", o.epochs);
  put("total_batch_size", o.batch);
  put("gradient_accumulation_steps", o.accumulation);
  put("max_length", o.length);
  put("save_steps", o.save_steps);
  put("evaluation_steps", o.eval_steps);
  put("warmup_steps", o.warmup);
  put("learning_rate", o.learning_rate);
  put("lora_rank", o.lora_rank);
  put("lora_alpha", o.lora_alpha);
  if (!o.lora_pattern.empty()) trainer["lora_pattern"] = o.lora_pattern;
  if (!o.steps && !o.epochs) trainer["num_train_epochs"] = 1;
  if (!o.rewards.empty() || !o.reward_model.empty()) {
    Json rewards = o.rewards;
    if (!o.reward_model.empty()) rewards.push_back("reward_model");
    trainer["rewards"] = rewards;
  }
  if (!o.scheduler.empty()) trainer["scheduler"] = o.scheduler;
  if (!o.optimizer.empty()) trainer["optimizer"] = o.optimizer;
  if (!o.resume.empty()) trainer["resume_from"] = o.resume;
  if (!o.eval_data.empty()) trainer["do_eval"] = true;
  if (o.packing) trainer["packing"] = true;
  if (o.padding_free) trainer["padding_free"] = true;
  if (o.group_by_length) trainer["group_by_length"] = true;
  if (!o.fp8.empty()) trainer["fp8"] = o.fp8;
  if (!o.profile.empty()) trainer["profile"] = o.profile;
  if (o.dashboard)
    trainer["dashboard"] = o.dashboard->empty() ? Json(true) : Json::parse(*o.dashboard, {.where = "--dashboard"});
  if (!o.trackers.empty()) trainer["report_to"] = o.trackers;
  if (o.no_shuffle) trainer["shuffle_train_dataset"] = false;
  json["trainer"] = trainer;
  json["actions"] = Json::array({"validate", "train"});
  return json;
}

void run(const TrainOptions& options) {
  ELargeConfig config(to_config(options));
  for (const std::string& change : options.changes)
    config.set(change.find('.') < change.find('=') ? change : "trainer." + change);
  ELargeModel model = on_devices(std::move(config), options.devices);
  if (options.dry_run) {
    if (World::current()->rank() == 0) std::cout << model.config().to_yaml();
    return;
  }
  print_notes(model.config(), false);
  run_training(model, options.json);
}

}  // namespace

void add_elarge_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("elarge", "Run the actions of a YAML file: validate, train, eval, serve");
  auto options = std::make_shared<ElargeOptions>();
  command->add_option("file", options->config, "YAML or JSON file; --config FILE means the same");
  command->add_option("-c,--config", options->config)->group("");  // EasyDeL's spelling
  command->add_option("--set", options->changes, "Override a value of the file: trainer.learning_rate=1e-5");
  command->add_flag("--dry-run", options->dry_run, "Validate the file and print it with all defaults; run nothing");
  add_device_options(*command, options->devices);
  command->footer(help_examples({"elarge run.yaml", "elarge run.yaml --set trainer.learning_rate=1e-5 --dry-run"}));
  command->add_flag("--keys", options->keys, "Print every key of every section as a Markdown table; run nothing");
  command->add_flag("--json", options->json, "Print results as JSON");
  command->callback([options] { run(*options); });
}

void add_train_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Train or fine-tune a model");
  auto options = std::make_shared<TrainOptions>();
  command
      ->add_option("model", options->model,
                   "A model directory, a model on the Hub, or a config.json to start from random weights")
      ->required();
  command->add_option("--data", options->data, "Training data: files, directories or glob patterns")->required();
  command->add_option("--eval-data", options->eval_data, "Evaluation data: files, directories or glob patterns");
  command->add_option("--field", options->field, "Field of each row that contains the text");
  command->add_option("--output", options->output, "Directory for checkpoints and logs")->capture_default_str();
  command
      ->add_option(
          "--trainer", options->trainer,
          "Training method: sft, base, dpo, kto, bco, cpo, orpo, reward, prm, distillation, gkd, seq_kd, "
          "on_policy_distillation, "
          "sparse_distillation, classification, grpo, gfpo, rlvr, rloo, ppo, online_dpo, xpo, nash_md, embedding, "
          "contrastive")
      ->capture_default_str();
  command->add_option("--tokenizer", options->tokenizer, "Tokenizer directory (default: the model's)");
  command->add_option("--reference", options->reference,
                      "Reference model for dpo, kto, bco and trainers with rewards (default: the model itself)");
  command->add_option("--reward", options->rewards,
                      "Reward for grpo, gfpo, rlvr, rloo, ppo, online_dpo, xpo and nash_md: exact, numeric, "
                      "regex=PATTERN, format, json, "
                      "length=TOKENS, \"command=PROGRAM WORDS\", http=URL, library=FILE; can be repeated");
  command->add_option("--reward-model", options->reward_model, "Reward model, for trainers with rewards");
  command->add_option(
      "--value-model", options->value_model,
      "Value model for ppo, trained along with the policy (default: the reward model, else the model itself)");
  command->add_option("--teacher", options->teacher,
                      "Teacher model for distillation, gkd, seq_kd, on_policy_distillation and sparse_distillation");
  command->add_option("--steps", options->steps, "Number of optimizer steps")->check(CLI::PositiveNumber);
  command->add_option("--epochs", options->epochs, "Number of passes over the data (default: 1 without --steps)")
      ->check(CLI::PositiveNumber);
  command->add_option("--batch", options->batch, "Batch size: rows per optimizer step, over all devices")
      ->check(CLI::PositiveNumber);
  command->add_option("--accumulate", options->accumulation, "Gradient accumulation steps");
  command->add_option("--length", options->length, "Maximum sequence length in tokens")->check(CLI::PositiveNumber);
  command->add_option("--learning-rate", options->learning_rate, "Peak learning rate");
  command->add_option("--warmup", options->warmup, "Learning rate warmup steps");
  command->add_option("--scheduler", options->scheduler, "Learning rate schedule: none, linear, cosine, …");
  command->add_option("--optimizer", options->optimizer, "Optimizer: adamw, adamw_8bit, lion, muon, adafactor, …");
  command->add_option("--lora-rank", options->lora_rank, "Train only LoRA adapters of this rank")
      ->check(CLI::PositiveNumber);
  command->add_option("--lora-alpha", options->lora_alpha,
                      "LoRA alpha; adapters are scaled by alpha / rank (default: the rank)");
  command->add_option("--lora-pattern", options->lora_pattern,
                      "Layers that get an adapter, e.g. q_proj|v_proj (default: all linear layers)");
  command->add_option("--save-steps", options->save_steps, "Steps between checkpoints; 0: only at the end");
  command->add_option("--eval-steps", options->eval_steps, "Steps between evaluations (default: after each epoch)");
  command->add_option("--resume", options->resume,
                      "Resume from a checkpoint directory, or from latest, even if settings changed. Without this "
                      "option, running the same command again resumes automatically");
  add_device_options(*command, options->devices);
  command->add_option(
      "--zero-stage", options->zero_stage,
      "ZeRO stage: 1 shards the optimizer state over the data axes, 2 also gradients, 3 also parameters");
  command->add_option("--dtype", options->dtype, "Compute dtype (default: bf16 on a GPU, fp32 on a CPU)");
  command->add_option("--param-dtype", options->param_dtype, "Dtype of the stored weights (default: fp32)");
  command->add_option("--fp8", options->fp8,
                      "Use float8 matrix products in linear layers, with rowwise or tensorwise scales");
  command->add_flag("--packing", options->packing,
                    "Pack several documents into one sequence, without attention between them");
  command->add_flag("--padding-free", options->padding_free,
                    "Concatenate the rows of a minibatch into one sequence instead of padding them to the longest");
  command->add_flag("--group-by-length", options->group_by_length, "Batch rows of similar length together");
  command->add_option(
      "--profile", options->profile,
      "Profile training steps into a Chrome trace: STEP or STEP:COUNT, such as 10:3 for steps 10 to 12");
  command
      ->add_option_function<std::string>(
          "--dashboard", [options](const std::string& port) { options->dashboard = port; },
          "Serve a live dashboard of the run on this port (default: 8265)")
      ->expected(0, 1)
      ->type_name("PORT");
  command->add_option("--report-to", options->trackers,
                      "Experiment trackers to log to: wandb, mlflow, trackio; can be repeated");
  command->add_flag("--no-shuffle", options->no_shuffle, "Do not shuffle the rows");
  command->add_option("--set", options->changes, "Set any other trainer key, e.g. clip_grad=1.0, or section.key=value");
  command->add_flag("--dry-run", options->dry_run, "Print the run as YAML for easydel elarge; run nothing");
  command->add_flag("--json", options->json, "Print the result as JSON");
  const auto group = [&](const char* title, std::initializer_list<const char*> names) {
    for (const char* name : names) command->get_option(name)->group(title);
  };
  group("Data", {"--data", "--eval-data", "--field", "--tokenizer", "--length", "--packing", "--padding-free",
                 "--group-by-length", "--no-shuffle"});
  group("Method", {"--trainer", "--reference", "--reward", "--reward-model", "--value-model", "--teacher"});
  group("Optimization", {"--steps", "--epochs", "--batch", "--accumulate", "--learning-rate", "--warmup", "--scheduler",
                         "--optimizer"});
  group("LoRA", {"--lora-rank", "--lora-alpha", "--lora-pattern"});
  group("Checkpoints and logs",
        {"--output", "--save-steps", "--eval-steps", "--resume", "--profile", "--dashboard", "--report-to"});
  group("Devices and dtypes", {"--device", "--mesh", "--devices", "--zero-stage", "--dtype", "--param-dtype", "--fp8"});
  command->footer(help_examples({"train MODEL --data train.jsonl --steps 1000 --batch 16 --output run",
                                 "train MODEL --data train.jsonl --lora-rank 16 --packing",
                                 "train MODEL --data pairs.jsonl --trainer dpo --learning-rate 5e-7"}));
  command->callback([options] { run(*options); });
}

}  // namespace easydel::cli
