// easydel demo rl: what rewards alone can teach. A small Llama sees the sums of a few pairs of numbers, then gets
// rewards for sums that it writes itself, and is measured on pairs that neither stage had.
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
  std::string reward = "exact";
  int64_t seed = 0;
  int64_t examples = 1000, sft_steps = 500, steps = 400, held_out = 500;
  int64_t prompts = 64, group = 8, hidden = 128, layers = 4;
  double learning_rate = 2e-4;  // of GRPO
  bool json = false;
};

struct Sum {
  std::string prompt, answer;  // "27+45=", "72"
};

// What each stage is given; no pair is in two of them.
struct Sums {
  std::vector<Sum> shown, rewarded, held_out;
};

// All pairs of two-digit numbers, shuffled.
Sums deal_sums(const DemoRlOptions& options) {
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
    const auto at = static_cast<int64_t>(i);
    std::vector<Sum>& part = at < options.held_out                      ? sums.held_out
                             : at < options.held_out + options.examples ? sums.shown
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

TrainingArguments stage_arguments(const DemoRlOptions& options, const std::string& stage) {
  TrainingArguments arguments = TrainingArguments::for_trainer(stage);
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

TrainingArguments sft_arguments(const DemoRlOptions& options) {
  TrainingArguments arguments = stage_arguments(options, "sft");
  arguments.max_training_steps = options.sft_steps;
  arguments.total_batch_size = 64;
  arguments.max_length = 16;
  arguments.learning_rate = 1e-3;
  arguments.learning_rate_end = 1e-4;
  arguments.scheduler = "linear";
  arguments.warmup_steps = std::min<int64_t>(20, options.sft_steps / 5);
  arguments.weight_decay = 0.1;
  return arguments;
}

TrainingArguments grpo_arguments(const DemoRlOptions& options) {
  TrainingArguments arguments = stage_arguments(options, "grpo");
  arguments.max_training_steps = options.steps;
  arguments.total_batch_size = options.prompts;
  arguments.learning_rate = options.learning_rate;
  arguments.warmup_steps = std::min<int64_t>(10, options.steps / 5);
  arguments.scheduler = "linear";
  arguments.learning_rate_end = 0.1 * options.learning_rate;
  arguments.weight_decay = 0.0;
  arguments.rollout.rewards = options.reward;
  arguments.rollout.num_return_sequences = options.group;
  arguments.rollout.max_prompt_length = 8;
  arguments.rollout.max_completion_length = 4;
  arguments.grpo.beta = 0;
  return arguments;
}

struct Stage {
  TrainResult result;
  double held_out = 0, seconds = 0;
};

void run(const DemoRlOptions& options) {
  require<UsageError>(options.hidden % 32 == 0, "--hidden must be a multiple of 32; got ", options.hidden, ".");
  const auto lock = prepare_demo_output(options.output);
  const fs::path tokenizer_directory = fs::path(options.output) / "tokenizer";
  const auto tokenizer = make_character_tokenizer(tokenizer_directory);
  const Sums sums = deal_sums(options);
  const std::shared_ptr<BaseModule> model = make_adder(options);
  if (!options.json) {
    std::cout << "pairs of two-digit numbers: " << sums.shown.size() << " with their sums for SFT, "
              << sums.rewarded.size() << " for GRPO (reward " << options.reward << "), " << sums.held_out.size()
              << " in neither\nmodel: llama, " << group_digits(model->num_params()) << " parameters\n"
              << std::flush;
  }
  const auto train = [&](const std::string& type, TrainingArguments arguments, std::unique_ptr<Objective> objective,
                         std::shared_ptr<const data::Dataset> dataset) {
    const auto begin = std::chrono::steady_clock::now();
    Stage stage;
    stage.result = Trainer({.trainer_type = type,
                            .arguments = std::move(arguments),
                            .model = model,
                            .objective = std::move(objective),
                            .tokenizer = tokenizer,
                            .train_dataset = std::move(dataset),
                            .tokenizer_directory = tokenizer_directory})
                       .train();
    stage.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (const int status = exit_status(stage.result.stopped_by)) throw ExitStatus(status);
    stage.held_out = exact_match(*model, *tokenizer, sums.held_out);
    return stage;
  };
  const Stage sft = train("sft", sft_arguments(options), make_objective("sft"),
                          dataset_of(sums.shown, "sums", "completion", options.seed));
  const Stage grpo = train("grpo", grpo_arguments(options), make_policy_objective("grpo", {}),
                           dataset_of(sums.rewarded, "questions", "answer", options.seed));
  if (options.json) {
    print_json(Json::object({{"reward", options.reward},
                             {"seed", options.seed},
                             {"before", sft.held_out},
                             {"after", grpo.held_out},
                             {"sft_seconds", sft.seconds},
                             {"grpo_seconds", grpo.seconds},
                             {"checkpoint", grpo.result.checkpoint.string()},
                             {"report", grpo.result.report.string()}}));
    return;
  }
  const auto row = [](const std::string& name, const Stage& stage) -> std::vector<std::string> {
    return {name, concat(stage.result.step), concat(static_cast<int64_t>(stage.seconds), " s"), concat(stage.held_out)};
  };
  std::cout << "\n";
  print_table({{"after", "steps", "time", "exact match on unseen pairs"}, row("SFT", sft), row("GRPO", grpo)});
  std::cout << "\nmodel:  " << grpo.result.checkpoint.string() << "\nreport: " << grpo.result.report.string() << "\n";
}

}  // namespace

void add_demo_rl_command(CLI::App& demo) {
  CLI::App* command = demo.add_subcommand("rl", "Teach a small Llama to add with SFT on a few sums, then with rewards");
  auto options = std::make_shared<DemoRlOptions>();
  const auto count = [&](const std::string& name, int64_t& value, const std::string& text) {
    command->add_option(name, value, text)->check(CLI::PositiveNumber)->capture_default_str();
  };
  command->add_option("--output", options->output, "Output directory; an earlier demo there is replaced")
      ->capture_default_str();
  command
      ->add_option("--reward", options->reward,
                   "What a completion gets: exact, 1 for the right sum; random, which says nothing: a control")
      ->check(CLI::IsMember({"exact", "random"}))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Seed of the weights, the split, the order and the sampling")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--examples", options->examples, "Pairs whose sums SFT is shown")
      ->check(CLI::Range(1, 4000))
      ->capture_default_str();
  command->add_option("--held-out", options->held_out, "Pairs in neither stage, which are measured")
      ->check(CLI::Range(1, 2000))
      ->capture_default_str();
  count("--sft-steps", options->sft_steps, "Steps of SFT, of 64 pairs each");
  count("--steps", options->steps, "Steps of GRPO");
  count("--prompts", options->prompts, "Prompts of a step of GRPO");
  command->add_option("--group", options->group, "Completions of each prompt")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  count("--hidden", options->hidden, "Hidden size of the model, a multiple of 32");
  count("--layers", options->layers, "Number of layers");
  command->add_option("--learning-rate", options->learning_rate, "Learning rate of GRPO")->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &demo] {
    for (const CLI::Option* option : demo.get_options()) {
      require<UsageError>(option->count() == 0 || option->get_name() == "--help", option->get_name(),
                          " before rl belongs to the other demo. See easydel demo rl --help.");
    }
    run(*options);
  });
}

}  // namespace easydel::cli
