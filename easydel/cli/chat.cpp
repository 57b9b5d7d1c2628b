// easydel chat: a conversation with a model.
#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <memory>
#include <stop_token>

#include "easydel/cli/commands.h"
#include "easydel/cli/console.h"
#include "easydel/cli/generation_options.h"
#include "easydel/cli/line_reader.h"
#include "easydel/cli/model_options.h"
#include "easydel/cli/text.h"
#include "easydel/core/error.h"
#include "easydel/core/file.h"
#include "easydel/generation/generate.h"

namespace easydel::cli {
namespace {

constexpr const char* kHelp =
    "/reset          begin anew\n"
    "/system TEXT    set the system message and begin anew; without a text there is none\n"
    "/save FILE      write the conversation as JSON\n"
    "/help           this list\n"
    "/exit           end, as the end of the input does\n"
    "Ctrl-C ends an answer.\n";

struct Options {
  ModelOptions model;
  GenerationOptions generation;
  std::string system;
  uint64_t seed = 0;
};

volatile std::sig_atomic_t interrupted = 0;

// Asks the stop source from a streamer: a signal handler may only set a flag.
class InterruptScope {
 public:
  InterruptScope() : before_(std::signal(SIGINT, [](int) { interrupted = 1; })) { interrupted = 0; }
  ~InterruptScope() { std::signal(SIGINT, before_); }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  void (*before_)(int);
};

class Chat {
 public:
  Chat(const Options& options, GenerationConfig config)
      : options_(options),
        config_(std::move(config)),
        tokenizer_(load_tokenizer(options.model)),
        system_(options.system) {
    require<ConfigError>(tokenizer_.has_value(), "[easydel chat] ", options.model.model,
                         " has no tokenizer.json or tokenizer.model.");
    require<ConfigError>(tokenizer_->has_chat_template(), "[easydel chat] ", options.model.model,
                         " has no chat template. `easydel generate --prompt` goes on from plain text.");
    module_ = load(options.model);
    reset();
  }

  void run() {
    LineReader reader;
    if (reader.is_terminal()) std::cout << "Type a message, or /help.\n";
    while (const std::optional<std::string> line = reader.next("> ")) {
      if (line->empty()) continue;
      try {
        if (!line->starts_with("/")) {
          answer(*line);
        } else if (!command(*line)) {
          break;
        }
      } catch (const Error& error) {
        // A message that cannot be answered is taken back; the conversation goes on.
        if (!reader.is_terminal()) throw;
        std::cerr << "easydel: " << error.what() << "\n";
      }
    }
  }

 private:
  void reset() {
    messages_ = Json::array();
    if (!system_.empty()) messages_.push_back(Json::object({{"role", "system"}, {"content", system_}}));
  }

  bool command(const std::string& line) {
    const std::size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::size_t begin = space == std::string::npos ? space : line.find_first_not_of(' ', space);
    const std::string rest = begin == std::string::npos ? "" : line.substr(begin);
    if (name == "/exit" || name == "/quit") return false;
    if (name == "/reset") {
      reset();
    } else if (name == "/system") {
      system_ = rest;
      reset();
    } else if (name == "/save") {
      require<UsageError>(!rest.empty(), "/save needs a file name.");
      write_file_atomically(rest, messages_.dump(2) + "\n");
      std::cout << "wrote " << messages_.size() << " messages to " << rest << "\n";
    } else if (name == "/help") {
      std::cout << kHelp;
    } else {
      fail<UsageError>("unknown command ", name, "; /help lists them.");
    }
    return true;
  }

  void answer(const std::string& text) {
    Json asked = messages_;
    asked.push_back(Json::object({{"role", "user"}, {"content", text}}));
    const std::vector<int32_t> ids = tokenizer_->encode_chat({.messages = asked, .add_generation_prompt = true});
    Printer printer(&**tokenizer_);
    std::stop_source stop;
    const InterruptScope interrupt;
    GenerateOptions given{.generation_config = config_, .prng_key = RandomKey(options_.seed).fold(turn_++)};
    given.streamer = [&](std::span<const int64_t> tokens) {
      if (tokens[0] >= 0) printer.add(tokens[0]);
      if (interrupted) stop.request_stop();
    };
    given.decode = [&](std::span<const int32_t> decoded) { return (*tokenizer_)->decode(decoded); };
    given.stop_token = stop.get_token();
    generate(*module_, at::tensor(ids, at::kInt).to(at::kLong).unsqueeze(0), given);
    printer.end();
    asked.push_back(Json::object({{"role", "assistant"}, {"content", printer.text()}}));
    messages_ = std::move(asked);
  }

  const Options& options_;
  GenerationConfig config_;
  std::optional<AutoTokenizer> tokenizer_;
  std::shared_ptr<BaseModule> module_;
  std::string system_;
  Json messages_;
  uint64_t turn_ = 0;
};

}  // namespace

void add_chat_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "Talk with a model");
  auto options = std::make_shared<Options>();
  options->model.task = "causal-lm";
  add_model_options(*command, options->model);
  add_adapter_option(*command, options->model);
  command->add_option("--system", options->system, "The system message");
  command->add_option("--seed", options->seed, "Of the draws, with --do-sample")->capture_default_str();
  add_generation_options(*command, options->generation);
  command->footer(kHelp);
  command->callback([options] {
    GenerationConfig model =
        GenerationConfig::from_pretrained(options->model.model, {.revision = options->model.revision});
    if (!model.max_length && !model.max_new_tokens) model.max_new_tokens = 512;
    const GenerationConfig config = to_generation_config(options->generation, model);
    require<UsageError>(config.beams() == 1 && config.num_return_sequences.value_or(1) == 1,
                        "easydel chat gives one answer, as it comes: no --num-beams, no --num-return-sequences.");
    require<UsageError>(
        rank_count(options->model) == 1, "easydel chat runs on one device; got ",
        options->model.devices ? concat("--devices ", *options->model.devices) : mesh_text(options->model),
        ". Use easydel generate on a mesh.");
    Chat(*options, config).run();
  });
}

}  // namespace easydel::cli
