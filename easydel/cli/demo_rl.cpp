// easydel demo rl: what rewards alone can teach. A small Llama sees the sums of a few pairs of numbers until it adds
// badly, then gets rewards for sums that it writes itself, and is measured on pairs that no stage had.
#include <ATen/ATen.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <utility>

#include "easydel/cli/commands.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/cli/terminal/demo_output.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/log.h"
#include "easydel/core/random.h"
#include "easydel/core/text/bytes.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/tokenizers/bpe/bpe_trainer.h"
#include "easydel/trainers/objectives/policy_objective.h"
#include "easydel/trainers/trainer.h"

namespace easydel::cli {
namespace fs = std::filesystem;
namespace {

struct DemoRlOptions {
  std::string output = "build/demo-rl";
  std::string reward = "digits";
  std::vector<std::string> controls;
  int64_t seed = 0;
  int64_t examples = 1000, sft_steps = 1000, steps = 300, held_out = 500;
  double sft_until = 0.3;  // the share of the checked pairs at which SFT ends
  int64_t prompts = 64, group = 8, hidden = 256, layers = 2;
  double learning_rate = 4e-4;  // of GRPO
  bool json = false;

  bool has_control(const std::string& name) const {
    return std::find(controls.begin(), controls.end(), name) != controls.end();
  }
};

constexpr int64_t kChecked = 200;    // pairs that say when SFT ends
constexpr int64_t kStepsATurn = 20;  // of SFT, between two looks at them

struct Sum {
  std::string prompt, answer;  // "27+45=", "72"
};

// What each stage is given; no pair is in two of them.
struct Sums {
  std::vector<Sum> shown, checked, rewarded, held_out;
};

// All pairs of two-digit numbers, shuffled.
Sums split_sums(const DemoRlOptions& options) {
  std::vector<Sum> all;
  for (int64_t a = 10; a < 100; ++a) {
    for (int64_t b = 10; b < 100; ++b) all.push_back({concat(a, "+", b, "="), concat(a + b)});
  }
  const RandomKey key = RandomKey(static_cast<uint64_t>(options.seed)).fold("pairs");
  std::vector<std::pair<uint64_t, std::size_t>> order;
  for (std::size_t i = 0; i < all.size(); ++i) order.emplace_back(key.fold(i).bits(), i);
  std::sort(order.begin(), order.end());
  Sums sums;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto at = static_cast<int64_t>(i) - options.held_out;
    std::vector<Sum>& part = at < 0                             ? sums.held_out
                             : at < options.examples            ? sums.shown
                             : at < options.examples + kChecked ? sums.checked
                                                                : sums.rewarded;
    part.push_back(std::move(all[order[i].second]));
  }
  return sums;
}

std::shared_ptr<const data::Dataset> dataset_of(const std::vector<Sum>& sums, const std::string& name,
                                                const std::string& answer_key, int64_t seed) {
  std::vector<Json> rows;
  for (const Sum& sum : sums) rows.push_back(Json::object({{"prompt", sum.prompt}, {answer_key, sum.answer}}));
  data::MixtureOptions mixture;
  mixture.shuffle_buffer_size = static_cast<int64_t>(sums.size());
  mixture.seed = seed;
  return std::make_shared<const data::Dataset>(std::vector{data::make_source(std::move(rows), name)}, mixture);
}

// A token is a byte.
std::shared_ptr<const AutoTokenizer> make_character_tokenizer(const fs::path& directory) {
  bool is_read = false;
  const Json tokenizer = train_byte_level_bpe(
      [&](std::string& text) {
        text = "10+10=20";
        return !std::exchange(is_read, true);
      },
      {.vocab_size = 257, .special_tokens = {"<|end|>"}});
  write_demo_tokenizer(directory, tokenizer);
  return std::make_shared<const AutoTokenizer>(AutoTokenizer::from_directory(directory));
}

std::shared_ptr<BaseModule> make_adder(const DemoRlOptions& options) {
  const std::unique_ptr<BaseConfig> config =
      AutoConfig::from_dict(Json::object({{"model_type", "llama"},
                                          {"hidden_size", options.hidden},
                                          {"intermediate_size", options.hidden * 8 / 3 / 32 * 32},
                                          {"num_hidden_layers", options.layers},
                                          {"num_attention_heads", options.hidden / 32},
                                          {"num_key_value_heads", options.hidden / 32},
                                          {"vocab_size", 257},
                                          {"max_position_embeddings", 16},
                                          {"tie_word_embeddings", false},
                                          {"bos_token_id", 0},
                                          {"eos_token_id", 0},
                                          {"pad_token_id", 0}}));
  return init_model(*config, TaskType::CausalLM, {.rngs = RandomKey(static_cast<uint64_t>(options.seed))});
}

// The share of sums that the model's most likely completion is exactly right for.
double exact_match(const BaseModule& model, const AutoTokenizer& tokenizer, const std::vector<Sum>& sums) {
  std::vector<int64_t> ids;
  for (const Sum& sum : sums) {
    const std::vector<int32_t> encoded = tokenizer->encode_ids(sum.prompt);
    ids.insert(ids.end(), encoded.begin(), encoded.end());
  }
  const auto rows = static_cast<int64_t>(sums.size());
  const at::Tensor prompts = at::tensor(ids, at::kLong).view({rows, -1});
  GenerateOptions options;
  options.generation_config.max_new_tokens = 4;
  options.generation_config.do_sample = false;
  const at::Tensor written =
      model.generate(prompts, options).sequences.slice(1, prompts.size(1)).to(at::kInt).contiguous();
  int64_t right = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const int32_t* first = written.const_data_ptr<int32_t>() + i * written.size(1);
    const int32_t* end = std::find(first, first + written.size(1), 0);
    if (end == first + written.size(1)) continue;  // it did not end
    if (tokenizer->decode(std::vector<int32_t>(first, end)) == sums[static_cast<std::size_t>(i)].answer) ++right;
  }
  return static_cast<double>(right) / static_cast<double>(rows);
}

// Half for the right sum, half for the share of its digits that are right.
RewardScores digit_rewards(const std::vector<RewardInput>& inputs) {
  RewardScores scores;
  for (const RewardInput& input : inputs) {
    const std::string& answer = input.row->at("answer").as_string();
    std::size_t right = 0;
    for (std::size_t i = 0; i < std::min(answer.size(), input.completion.size()); ++i)
      right += answer[i] == input.completion[i] ? 1 : 0;
    const std::size_t longer = std::max(answer.size(), input.completion.size());
    const double share = static_cast<double>(right) / static_cast<double>(longer);
    scores.push_back(0.5 * share + (share == 1 && !input.is_truncated ? 0.5 : 0));
  }
  return scores;
}

TrainingArguments stage_arguments(const DemoRlOptions& options, const std::string& type, const std::string& stage) {
  TrainingArguments arguments = TrainingArguments::for_trainer(type);
  arguments.model_name = concat("easydel demo rl, ", stage);
  arguments.save_directory = (fs::path(options.output) / stage).string();
  arguments.seed = options.seed;
  arguments.shuffle_seed_train = options.seed;
  arguments.clip_grad = 1.0;
  arguments.save_total_limit = 1;
  arguments.resume_if_possible = false;
  arguments.extra_optimizer_kwargs = Json::object({{"b2", 0.95}});
  return arguments;
}

TrainingArguments sft_arguments(const DemoRlOptions& options, const std::string& stage) {
  TrainingArguments arguments = stage_arguments(options, "sft", stage);
  arguments.total_batch_size = 64;
  arguments.max_length = 16;
  arguments.learning_rate = 1e-3;
  arguments.weight_decay = 0.1;
  return arguments;
}

TrainingArguments grpo_arguments(const DemoRlOptions& options, const std::string& stage) {
  TrainingArguments arguments = stage_arguments(options, "grpo", stage);
  arguments.max_training_steps = options.steps;
  arguments.total_batch_size = options.prompts;
  arguments.learning_rate = options.learning_rate;
  arguments.warmup_steps = std::min<int64_t>(10, options.steps / 5);
  arguments.scheduler = "linear";
  arguments.learning_rate_end = 0.1 * options.learning_rate;
  arguments.weight_decay = 0.0;
  arguments.rollout.num_return_sequences = options.group;
  arguments.rollout.max_prompt_length = 8;
  arguments.rollout.max_completion_length = 4;
  arguments.grpo.beta = 0;
  return arguments;
}

// Lines of the runs that a stage is made of are left out while one lives.
class QuietLog {
 public:
  QuietLog() { log::set_level(std::max(before_, log::Level::Warning)); }
  ~QuietLog() { log::set_level(before_); }
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;

 private:
  log::Level before_ = log::level();
};

struct Stage {
  std::string name;
  TrainResult result;
  double held_out = 0, seconds = 0;  // seconds: of the steps
};

class Demo {
 public:
  explicit Demo(const DemoRlOptions& options)
      : options_(options),
        lock_(prepare_demo_output(options.output)),
        tokenizer_directory_(fs::path(options.output) / "tokenizer"),
        tokenizer_(make_character_tokenizer(tokenizer_directory_)),
        sums_(split_sums(options)) {}

  void run() {
    const Stage sft = first_sums();
    stages_.push_back(sft);
    stages_.push_back(rewards("GRPO", "grpo", options_.reward, sft));
    const double seconds = stages_.back().seconds;
    if (options_.has_control("random")) stages_.push_back(rewards("GRPO, random rewards", "random", "random", sft));
    if (options_.has_control("sft")) stages_.push_back(more_sums(sft, seconds));
  }

  void print() const {
    if (options_.json) return print_json(report());
    std::vector<std::vector<std::string>> rows{{"after", "steps", "time", "exact match on unseen pairs"}};
    for (const Stage& stage : stages_)
      rows.push_back({stage.name, concat(stage.result.step), concat(static_cast<int64_t>(stage.seconds), " s"),
                      concat(stage.held_out)});
    std::cout << "\n";
    print_table(rows);
    std::cout << "\nmodel:  " << stages_[1].result.checkpoint.string()
              << "\nreport: " << stages_[1].result.report.string() << "\n";
  }

 private:
  Json report() const {
    Json stages = Json::array();
    for (const Stage& stage : stages_) {
      stages.push_back(Json::object({{"after", stage.name},
                                     {"steps", stage.result.step},
                                     {"seconds", stage.seconds},
                                     {"exact_match", stage.held_out},
                                     {"checkpoint", stage.result.checkpoint.string()},
                                     {"report", stage.result.report.string()}}));
    }
    return Json::object({{"reward", options_.reward}, {"seed", options_.seed}, {"stages", std::move(stages)}});
  }

  void train(Stage& stage, const std::string& type, TrainingArguments arguments, std::unique_ptr<Objective> objective,
             const std::shared_ptr<const data::Dataset>& dataset, const std::shared_ptr<BaseModule>& model) const {
    using Clock = std::chrono::steady_clock;
    Clock::time_point begin;
    TrainerHooks hooks;
    hooks.before_step = [&](int64_t) { begin = Clock::now(); };
    hooks.after_step = [&](int64_t, const Metrics&) {
      stage.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    };
    stage.result = Trainer({.trainer_type = type,
                            .arguments = std::move(arguments),
                            .model = model,
                            .objective = std::move(objective),
                            .tokenizer = tokenizer_,
                            .train_dataset = dataset,
                            .tokenizer_directory = tokenizer_directory_,
                            .hooks = std::move(hooks)})
                       .train();
    if (const int status = exit_status(stage.result.stopped_by)) throw ExitStatus(status);
  }

  // SFT in turns, each of which resumes from the one before, until the model is right about enough of the checked
  // pairs.
  Stage first_sums() const {
    const std::shared_ptr<BaseModule> model = make_adder(options_);
    if (!options_.json) {
      std::cout << "pairs of two-digit numbers: " << sums_.shown.size() << " for SFT, " << sums_.checked.size()
                << " for validation, " << sums_.rewarded.size() << " for GRPO (reward " << options_.reward << "), "
                << sums_.held_out.size() << " held out\nmodel: llama, " << group_digits(model->num_params())
                << " parameters\n"
                << std::flush;
    }
    const auto dataset = dataset_of(sums_.shown, "sums", "completion", options_.seed);
    Stage stage{.name = "SFT"};
    const QuietLog quiet;
    for (int64_t step = 0; step < options_.sft_steps;) {
      step = std::min(step + kStepsATurn, options_.sft_steps);
      TrainingArguments arguments = sft_arguments(options_, "sft");
      arguments.max_training_steps = step;
      arguments.scheduler = "constant";
      arguments.warmup_steps = kStepsATurn;
      arguments.resume_if_possible = true;
      arguments.verbose = false;
      train(stage, "sft", std::move(arguments), make_objective("sft"), dataset, model);
      if (exact_match(*model, *tokenizer_, sums_.checked) >= options_.sft_until) break;
    }
    stage.held_out = exact_match(*model, *tokenizer_, sums_.held_out);
    return stage;
  }

  std::shared_ptr<BaseModule> model_after(const Stage& stage) const {
    return load_model(stage.result.checkpoint.string(), TaskType::CausalLM, {.verbose = false});
  }

  Stage rewards(const std::string& name, const std::string& folder, const std::string& reward, const Stage& sft) const {
    TrainingArguments arguments = grpo_arguments(options_, folder);
    PolicyParts parts;
    if (reward == "digits") {
      parts.reward_functions.emplace_back("digits", digit_rewards);
    } else {
      arguments.rollout.rewards = reward;
    }
    Stage stage{.name = name};
    const std::shared_ptr<BaseModule> model = model_after(sft);
    train(stage, "grpo", std::move(arguments), make_policy_objective("grpo", std::move(parts)),
          dataset_of(sums_.rewarded, "questions", "answer", options_.seed), model);
    stage.held_out = exact_match(*model, *tokenizer_, sums_.held_out);
    return stage;
  }

  // As many more steps of SFT as take the time that GRPO took.
  Stage more_sums(const Stage& sft, double seconds) const {
    TrainingArguments arguments = sft_arguments(options_, "sft-more");
    const double each = sft.seconds / static_cast<double>(sft.result.step);
    arguments.max_training_steps = std::max<int64_t>(1, static_cast<int64_t>(seconds / each));
    arguments.scheduler = "linear";
    arguments.learning_rate_end = 1e-4;
    Stage stage{.name = "more SFT instead"};
    const std::shared_ptr<BaseModule> model = model_after(sft);
    train(stage, "sft", std::move(arguments), make_objective("sft"),
          dataset_of(sums_.shown, "sums", "completion", options_.seed), model);
    stage.held_out = exact_match(*model, *tokenizer_, sums_.held_out);
    return stage;
  }

  DemoRlOptions options_;
  std::shared_ptr<RunLock> lock_;
  fs::path tokenizer_directory_;
  std::shared_ptr<const AutoTokenizer> tokenizer_;
  Sums sums_;
  std::vector<Stage> stages_;
};

void run(const DemoRlOptions& options) {
  require<UsageError>(options.hidden % 32 == 0, "--hidden must be a multiple of 32; got ", options.hidden, ".");
  Demo demo(options);
  demo.run();
  demo.print();
}

}  // namespace

void add_demo_rl_command(CLI::App& demo) {
  CLI::App* command = demo.add_subcommand("rl", "Teach a small Llama to add: SFT on a few sums, then GRPO");
  auto options = std::make_shared<DemoRlOptions>();
  const auto count = [&](const std::string& name, int64_t& value, const std::string& text) {
    command->add_option(name, value, text)->check(CLI::PositiveNumber)->capture_default_str();
  };
  command->add_option("--output", options->output, "Output directory; replaces the output of an earlier demo there")
      ->capture_default_str();
  command
      ->add_option("--reward", options->reward,
                   "Reward of a completion: exact, 1 for the correct sum; digits, 0.5 for the correct sum and 0.5 "
                   "times the fraction of correct digits")
      ->check(CLI::IsMember({"digits", "exact"}))
      ->capture_default_str();
  command
      ->add_option("--control", options->controls,
                   "Control runs from the same SFT checkpoint: random, GRPO with random rewards; sft, more SFT for the "
                   "time that GRPO took")
      ->check(CLI::IsMember({"random", "sft"}));
  command
      ->add_option("--seed", options->seed, "Random seed of the weights, the data split, the data order and sampling")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--examples", options->examples, "Number of training pairs for SFT")
      ->check(CLI::Range(1, 4000))
      ->capture_default_str();
  command->add_option("--held-out", options->held_out, "Number of held-out pairs, on which accuracy is measured")
      ->check(CLI::Range(1, 2000))
      ->capture_default_str();
  count("--sft-steps", options->sft_steps, "Maximum number of SFT steps, of 64 pairs each");
  command->add_option("--sft-until", options->sft_until, "Exact match on 200 validation pairs at which SFT stops")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  count("--steps", options->steps, "Number of GRPO steps");
  count("--prompts", options->prompts, "Prompts per GRPO step");
  command->add_option("--group", options->group, "Completions per prompt")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  count("--hidden", options->hidden, "Hidden size of the model, a multiple of 32");
  count("--layers", options->layers, "Number of layers");
  command->add_option("--learning-rate", options->learning_rate, "Learning rate of GRPO")->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &demo] {
    for (const CLI::Option* option : demo.get_options()) {
      require<UsageError>(
          option->count() == 0 || option->get_name() == "--help", option->get_name(),
          " before rl is an option of easydel demo, not of easydel demo rl. See easydel demo rl --help.");
    }
    run(*options);
  });
}

}  // namespace easydel::cli
