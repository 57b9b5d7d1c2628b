// easydel demo: from a book to a language model. Trains a tokenizer and a small Llama on virtual devices, measures it
// on held-out chapters, and generates samples.
#include <ATen/ATen.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <mutex>

#include "easydel/cli/commands.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/cli/terminal/demo_output.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/text/bytes.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/io/gzip_size.h"
#include "easydel/sharding/world/world.h"
#include "easydel/tokenizers/bpe/bpe_trainer.h"
#include "easydel/trainers/objectives/score.h"
#include "easydel/trainers/trainer.h"

namespace easydel::cli {
namespace fs = std::filesystem;
namespace {

struct DemoOptions {
  std::string corpus = "examples/demo/pride_and_prejudice.txt";
  std::string output = "build/demo";
  std::vector<int64_t> mesh = {1, 2, 1, 2, 1};
  int64_t steps = 1000, batch = 8, length = 128, vocabulary = 2048, hidden = 192, layers = 4, held_out = 4;
  std::string optimizer = "adamw";
  double learning_rate = 4e-3;
  bool json = false;
};

struct Corpus {
  std::vector<std::string> chapters;  // to train on
  std::string held_out;               // the last ones
};

// Text before the first "Chapter 1" is skipped.
Corpus read_corpus(const DemoOptions& options) {
  require<UsageError>(
      fs::exists(options.corpus), "--corpus ", options.corpus,
      " does not exist. Run it from the root of the repository, or give a text file with \"Chapter 1\" ",
      "and so on before its chapters.");
  const std::string text = read_file(options.corpus);
  std::vector<std::string> chapters;
  for (std::size_t at = 0, number = 1;; ++number) {
    const std::size_t begin = text.find(concat("Chapter ", number, "\n"), at);
    if (begin == std::string::npos) break;
    const std::size_t end = text.find(concat("\nChapter ", number + 1, "\n"), begin);
    chapters.push_back(text.substr(begin, end == std::string::npos ? end : end + 1 - begin));
    at = begin + 1;
  }
  require<ConfigError>(static_cast<int64_t>(chapters.size()) > options.held_out, "[easydel demo] ", options.corpus,
                       " has ", chapters.size(), " chapters; more than ", options.held_out, " are needed.");
  Corpus corpus;
  const std::size_t learned = chapters.size() - static_cast<std::size_t>(options.held_out);
  for (std::size_t i = 0; i < chapters.size(); ++i) {
    if (i < learned) {
      corpus.chapters.push_back(std::move(chapters[i]));
    } else {
      corpus.held_out += chapters[i];
    }
  }
  return corpus;
}

// Writes tokenizer.json and tokenizer_config.json.
void train_tokenizer(const Corpus& corpus, const fs::path& directory, int64_t vocabulary) {
  std::size_t next = 0;
  const Json tokenizer = train_byte_level_bpe(
      [&](std::string& text) {
        if (next == corpus.chapters.size()) return false;
        text = corpus.chapters[next++];
        return true;
      },
      {.vocab_size = vocabulary, .special_tokens = {"<|end|>"}});
  write_demo_tokenizer(directory, tokenizer);
}

std::unique_ptr<BaseConfig> make_config(const DemoOptions& options, int64_t vocabulary) {
  return AutoConfig::from_dict(Json::object({{"model_type", "llama"},
                                             {"hidden_size", options.hidden},
                                             {"intermediate_size", options.hidden * 8 / 3 / 32 * 32},
                                             {"num_hidden_layers", options.layers},
                                             {"num_attention_heads", options.hidden / 32},
                                             {"num_key_value_heads", options.hidden / 64},
                                             {"vocab_size", vocabulary},
                                             {"max_position_embeddings", 4 * options.length},
                                             {"rms_norm_eps", 1e-5},
                                             {"tie_word_embeddings", true},
                                             {"bos_token_id", 0},
                                             {"eos_token_id", 0},
                                             {"pad_token_id", 0},
                                             {"sharding_axis_dims", options.mesh}}));
}

TrainingArguments make_arguments(const DemoOptions& options) {
  TrainingArguments arguments;
  arguments.model_name = "easydel demo";
  arguments.save_directory = options.output;
  arguments.max_training_steps = options.steps;
  arguments.total_batch_size = options.batch;
  arguments.max_length = options.length;
  arguments.learning_rate = options.learning_rate;
  arguments.scheduler = "cosine";
  arguments.warmup_steps = std::min<int64_t>(40, options.steps / 5);
  arguments.weight_decay = 0.1;
  arguments.clip_grad = 1.0;
  arguments.text.packing = true;
  arguments.text.packing_strategy = "wrapped";
  arguments.save_total_limit = 1;
  arguments.resume_if_possible = false;
  arguments.optimizer = options.optimizer;
  if (options.optimizer == "adamw") arguments.extra_optimizer_kwargs = Json::object({{"b2", 0.95}});
  return arguments;
}

std::string write_text(const BaseModule& model, const AutoTokenizer& tokenizer, const std::string& prompt) {
  const std::vector<int32_t> ids = tokenizer->encode_ids(prompt);
  GenerateOptions options;
  options.generation_config.max_new_tokens = 90;
  options.generation_config.do_sample = true;
  options.generation_config.temperature = 0.6;
  options.generation_config.top_k = 40;
  options.generation_config.top_p = 0.95;
  const at::Tensor input = at::tensor(std::vector<int64_t>(ids.begin(), ids.end()), at::kLong).unsqueeze(0);
  const at::Tensor row = model.generate(input, options).sequences[0].contiguous();
  const std::vector<int32_t> all(row.const_data_ptr<int64_t>(), row.const_data_ptr<int64_t>() + row.numel());
  return tokenizer->decode(all);
}

struct Outcome {
  TrainResult result;
  int64_t parameters = 0;
  double first_loss = 0, seconds = 0, bits = 0;
  std::vector<std::string> samples;
};

Outcome train(const DemoOptions& options, const Corpus& corpus, const std::shared_ptr<const AutoTokenizer>& tokenizer,
              const fs::path& tokenizer_directory, const std::shared_ptr<RunLock>& lock) {
  std::vector<Json> rows;
  for (const std::string& chapter : corpus.chapters) rows.push_back(Json::object({{"text", chapter}}));
  data::MixtureOptions mixture;
  mixture.shuffle_buffer_size = 1;
  mixture.seed = 1;
  const auto dataset =
      std::make_shared<const data::Dataset>(std::vector{data::make_source(std::move(rows), options.corpus)}, mixture);
  const std::unique_ptr<BaseConfig> config = make_config(options, (*tokenizer)->vocab_size());
  const std::vector<int32_t> encoded = (*tokenizer)->encode_ids(corpus.held_out);
  const std::vector<int64_t> unseen(encoded.begin(), encoded.end());
  Outcome outcome;
  const auto body = [&](World& world) {
    const auto begin = std::chrono::steady_clock::now();
    const std::shared_ptr<BaseModule> model = init_model(*config, TaskType::CausalLM, {.rngs = RandomKey(0)});
    if (world.size() > 1) model->shard_model();
    TrainerOptions run{.trainer_type = "sft",
                       .arguments = make_arguments(options),
                       .model = model,
                       .objective = make_objective("sft"),
                       .tokenizer = tokenizer,
                       .train_dataset = dataset,
                       .tokenizer_directory = tokenizer_directory,
                       .lock = world.rank() == 0 ? lock : nullptr};
    double first = 0;
    run.hooks.after_step = [&](int64_t step, const Metrics& metrics) {
      if (step == 1) first = metrics.at("loss");
    };
    const TrainResult result = Trainer(run).train();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const TextScore score = score_text(
        *model, unseen, {.window = options.length * 2, .stride = options.length / 2, .show_progress = false});
    std::vector<std::string> samples;
    for (const char* prompt : {"\"My dear Mr. Bennet,\"", "Elizabeth", "It is a truth universally"})
      samples.push_back(write_text(*model, *tokenizer, prompt));
    if (world.rank() != 0) return;
    outcome = {result,
               model->num_params(),
               first,
               seconds,
               score.nll / std::log(2.0) / static_cast<double>(corpus.held_out.size()),
               std::move(samples)};
  };
  int64_t devices = 1;
  for (const int64_t size : options.mesh) devices *= size;
  if (devices == 1) {
    body(*World::current());
  } else {
    run_ranks(devices, body);
  }
  return outcome;
}

StopReason train_and_show(const DemoOptions& options) {
  const Corpus corpus = read_corpus(options);
  const fs::path tokenizer_directory = fs::path(options.output) / "tokenizer";
  const auto lock = prepare_demo_output(options.output);
  train_tokenizer(corpus, tokenizer_directory, options.vocabulary);
  const auto tokenizer = std::make_shared<const AutoTokenizer>(AutoTokenizer::from_directory(tokenizer_directory));
  if (!options.json) {
    std::cout << "corpus: " << options.corpus << ", " << corpus.chapters.size() << " chapters to train on, "
              << options.held_out << " held out\n"
              << "tokenizer: " << (*tokenizer)->vocab_size() << " tokens, " << tokenizer_directory.string() << "\n"
              << std::flush;
  }
  const Outcome outcome = train(options, corpus, tokenizer, tokenizer_directory, lock);
  const double gzip_bits =
      8.0 * static_cast<double>(gzip_size(corpus.held_out)) / static_cast<double>(corpus.held_out.size());
  const double last = outcome.result.metrics.at("loss");
  if (options.json) {
    print_json(Json::object({{"steps", outcome.result.step},
                             {"first_loss", outcome.first_loss},
                             {"last_loss", last},
                             {"bits_per_byte", outcome.bits},
                             {"gzip_bits_per_byte", gzip_bits},
                             {"seconds", outcome.seconds},
                             {"checkpoint", outcome.result.checkpoint.string()},
                             {"report", outcome.result.report.string()},
                             {"samples", outcome.samples}}));
    return outcome.result.stopped_by;
  }
  std::cout << "\n";
  print_table({{"model", concat("llama, ", group_digits(outcome.parameters), " parameters")},
               {"loss", concat(outcome.first_loss, " to ", last, " in ", outcome.result.step, " steps, ",
                               static_cast<int64_t>(outcome.seconds), " s")},
               {"held-out text", concat(outcome.bits, " bits per byte; gzip -9 needs ", gzip_bits)}});
  for (const std::string& sample : outcome.samples) std::cout << "\n  " << sample << "\n";
  const std::string program = fs::relative(fs::read_symlink("/proc/self/exe")).string();
  std::cout << "\nmodel:  " << outcome.result.checkpoint.string() << "\nreport: " << outcome.result.report.string()
            << "\n\nTry next:\n  " << program << " generate " << outcome.result.checkpoint.string()
            << " --prompt \"Mr. Darcy\" --max-new-tokens 100\n  " << program << " eval "
            << outcome.result.checkpoint.string() << " --text FILE\n  " << program << " train --help\n";
  return outcome.result.stopped_by;
}

// Before an earlier demo is replaced.
void check(const DemoOptions& options) {
  require<UsageError>(options.hidden % 64 == 0, "--hidden must be a multiple of 64; got ", options.hidden, ".");
  for (const int64_t size : options.mesh)
    require<UsageError>(size >= 1, "--mesh must be five sizes of at least 1; got ", size, " among them.");
}

void run(const DemoOptions& options) {
  check(options);
  const StopReason stopped_by = train_and_show(options);
  if (const int status = exit_status(stopped_by)) throw ExitStatus(status);
}

}  // namespace

void add_demo_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("demo", "Train a small Llama on a book from scratch and generate samples");
  auto options = std::make_shared<DemoOptions>();
  command->add_option("--corpus", options->corpus, "A text file with chapters")->capture_default_str();
  command->add_option("--output", options->output, "Output directory; replaces the output of an earlier demo there")
      ->capture_default_str();
  command->add_option("--steps", options->steps, "Number of training steps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--batch", options->batch, "Batch size")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--length", options->length, "Sequence length")
      ->check(CLI::Range(8, 4096))
      ->capture_default_str();
  command->add_option("--hidden", options->hidden, "Hidden size of the model, a multiple of 64")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--layers", options->layers, "Number of layers")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--vocabulary", options->vocabulary, "Vocabulary size of the tokenizer")
      ->check(CLI::Range(300, 100000))
      ->capture_default_str();
  command->add_option("--learning-rate", options->learning_rate, "Peak learning rate")->capture_default_str();
  command->add_option("--optimizer", options->optimizer, "Optimizer: adamw, muon, lion, …")->capture_default_str();
  command->add_option("--mesh", options->mesh, "Virtual devices along dp, fsdp, ep, tp, sp")
      ->expected(5)
      ->type_name("DP,FSDP,EP,TP,SP")
      ->delimiter(',');
  command->add_flag("--json", options->json, "Print JSON");
  add_demo_rl_command(*command);
  command->callback([options, command] {
    if (command->get_subcommands().empty()) run(*options);
  });
}

}  // namespace easydel::cli
