// easydel chat: a conversation with a model.
#include <CLI/CLI.hpp>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <iostream>
#include <memory>
#include <mutex>
#include <stop_token>

#include "easydel/cli/commands.h"
#include "easydel/cli/options/generation_options.h"
#include "easydel/cli/options/image_inputs.h"
#include "easydel/cli/options/model_options.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/cli/terminal/help.h"
#include "easydel/cli/terminal/line_reader.h"
#include "easydel/cli/terminal/text.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/log.h"
#include "easydel/generation/generate.h"
#include "easydel/processors/vision_processor.h"
#include "easydel/serve/engine/engine.h"
#include "easydel/serve/engine/generation_params.h"
#include "easydel/serve/server.h"
#include "easydel/tokenizers/chat_parts.h"

namespace easydel::cli {
namespace {

constexpr const char* kHelp =
    "/reset          start over\n"
    "/system TEXT    set the system message and start over; without TEXT, remove it\n"
    "/image FILE     add an image to the next message; can be repeated\n"
    "/save FILE      write the conversation as JSON\n"
    "/help           show this list\n"
    "/exit           quit\n"
    "Ctrl-C stops an answer or discards the line; Ctrl-D quits.\n";

constexpr int64_t kNewTokens = 512;  // of an answer, by default

struct ChatArguments {
  ModelOptions model;
  GenerationOptions generation;
  std::string system;
  std::vector<std::string> images, sounds;
  uint64_t seed = 0;
};

volatile std::sig_atomic_t interrupted = 0;

// Sets the flag that the answer looks at, since a signal handler may do no more.
class InterruptScope {
 public:
  InterruptScope() : before_(std::signal(SIGINT, [](int) { interrupted = 1; })) { interrupted = 0; }
  ~InterruptScope() { std::signal(SIGINT, before_); }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  void (*before_)(int);
};

// Tokens on their way from the engine's thread to the one that prints.
class Arrivals {
 public:
  void add(const serve::RequestOutput& output) {
    const std::lock_guard lock(mutex_);
    tokens_.insert(tokens_.end(), output.tokens.begin(), output.tokens.end());
    if (output.finish) finish_ = output.finish;
    cached_ = output.cached_tokens;
    if (output.finish == serve::Finish::Error) error_ = output.error;
    changed_.notify_one();
  }
  // Those that came since; waits a moment for the first.
  std::vector<int32_t> take() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(50), [&] { return finish_ || !tokens_.empty(); });
    return std::exchange(tokens_, {});
  }
  bool has_ended() {
    const std::lock_guard lock(mutex_);
    return finish_ && tokens_.empty();
  }
  // Once it has ended.
  const std::string& error() const { return error_; }
  int64_t cached() const { return cached_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int32_t> tokens_;
  std::optional<serve::Finish> finish_;
  std::string error_;
  int64_t cached_ = 0;  // tokens of the prompt
};

struct EncodedChat {
  std::vector<int32_t> ids;
  std::shared_ptr<const ImageInputs> images;  // none: text alone
};

class Chat {
 public:
  Chat(const ChatArguments& options, GenerationConfig config)
      : options_(options),
        config_(std::move(config)),
        tokenizer_(load_tokenizer(options.model)),
        system_(options.system),
        images_(options.images) {
    require<ConfigError>(tokenizer_.has_value(), "[easydel chat] ", options.model.model,
                         " has no tokenizer.json or tokenizer.model.");
    require<ConfigError>(tokenizer_->has_chat_template(), "[easydel chat] ", options.model.model,
                         " has no chat template. Use `easydel generate --prompt` with plain text.");
    module_ = load(options.model);
    vision_ = serve::load_vision(*module_, options.model.model, {.revision = options.model.revision});
    require<ConfigError>(vision_ || images_.empty(), "[easydel chat] ", module_->type_name(),
                         " does not accept images; got --image ", images_.empty() ? "" : images_.front(), ".");
    start_engine();
    reset();
  }

  void run() {
    LineReader reader;
    if (reader.is_terminal()) std::cout << "Type a message, or /help.\n";
    while (true) {
      const TypedLine line = reader.next("> ");
      if (line.kind == TypedLine::Kind::End) break;
      if (line.kind == TypedLine::Kind::Interrupted) {
        std::cout << (line.text.empty() ? "\n(Press Ctrl-D or type /exit to quit)\n" : "\n");
        continue;
      }
      if (line.text.empty()) continue;
      try {
        if (!line.text.starts_with("/")) {
          answer(line.text);
        } else if (!command(line.text)) {
          break;
        }
      } catch (const Error& error) {
        // A message that cannot be answered is dropped; the conversation continues.
        if (!reader.is_terminal()) throw;
        std::cerr << "easydel: " << error.what() << "\n";
      }
    }
  }

 private:
  void reset() {
    messages_ = Json::array();
    left_out_ = 0;
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
      images_.clear();
    } else if (name == "/system") {
      system_ = rest;
      reset();
    } else if (name == "/image") {
      require<UsageError>(!rest.empty(), "/image needs a file name.");
      require<UsageError>(vision_ != nullptr, "/image needs a vision model; this one does not accept images.");
      vision_->image_processor().load(rest);  // so that an invalid file is reported now
      images_.push_back(rest);
    } else if (name == "/save") {
      require<UsageError>(!rest.empty(), "/save needs a file name.");
      write_file_atomically(rest, messages_.dump(2) + "\n");
      std::cout << "wrote " << messages_.size() << " messages to " << rest << "\n";
    } else if (name == "/help") {
      std::cout << kHelp;
    } else {
      fail<UsageError>("unknown command ", name, "; type /help for a list.");
    }
    return true;
  }

  // The engine keeps the keys and values of the conversation, so that a turn computes only what is new. What it has
  // nothing for goes through generate, which computes every turn as a whole.
  void start_engine() {
    if (const auto key = serve::unsupported_key(config_)) {
      log::debug("[easydel chat] ", *key,
                 " is not supported by the engine: each answer recomputes the whole conversation.");
      return;
    }
    try {
      engine_ = serve::make_engine(module_, tokenizer_->shared(), {.max_num_seqs = 1});
    } catch (const NotSupportedError& error) {
      log::debug("[easydel chat] each answer recomputes the whole conversation: ", error.what());
    }
  }

  void answer(const std::string& text) {
    Json asked = messages_;
    asked.push_back(Json::object({{"role", "user"}, {"content", content_of(text)}}));
    images_.clear();  // dropped with a message that cannot be answered, too
    const EncodedChat prompt = encode(asked);
    Printer printer(&**tokenizer_);
    const InterruptScope interrupt;
    if (engine_) {
      answer_by_engine(prompt, printer);
    } else {
      answer_by_generate(prompt, printer);
    }
    printer.end();
    asked.push_back(Json::object({{"role", "assistant"}, {"content", printer.text()}}));
    messages_ = std::move(asked);
  }

  // Images stand where the text has placeholders, else before it.
  Json content_of(const std::string& text) const {
    if (images_.empty()) {
      require<UsageError>(!vision_ || text.find(vision_->image_token()) == std::string::npos, "the message has a ",
                          "placeholder ", vision_ ? vision_->image_token() : "",
                          ", and there is no image to show. Add one with /image FILE first.");
      return text;
    }
    Json parts = Json::array();
    const auto add_text = [&](const std::string& piece) {
      if (!piece.empty()) parts.push_back(Json::object({{"type", "text"}, {"text", piece}}));
    };
    const auto add_image = [&](const std::string& file) {
      parts.push_back(Json::object({{"type", "image"}, {"path", file}}));
    };
    const std::string& token = vision_->image_token();
    std::size_t at = 0, next = text.find(token), places = 0;
    if (next == std::string::npos)
      for (const std::string& file : images_) add_image(file);
    for (; next != std::string::npos; next = text.find(token, at), ++places) {
      add_text(text.substr(at, next - at));
      if (places < images_.size()) add_image(images_[places]);
      at = next + token.size();
    }
    require<UsageError>(places == 0 || places == images_.size(), "the message has ", places, " placeholders ", token,
                        ", and there are ", images_.size(), " images to show. Write one for each, or none.");
    add_text(text.substr(at));
    return parts;
  }

  void answer_by_engine(const EncodedChat& prompt, Printer& printer) {
    const std::vector<int32_t>& ids = prompt.ids;
    const auto length = static_cast<int64_t>(ids.size());
    const GenerationConfig config = fitting(length);
    serve::Request request{.prompt = ids, .sampling = serve::to_sampling_params(config), .images = prompt.images};
    request.sampling.seed = RandomKey(options_.seed).fold(turn_++).bits();
    if (!config.max_new_tokens && config.max_length) request.sampling.max_tokens = *config.max_length - length;
    const auto arrivals = std::make_shared<Arrivals>();
    const serve::RequestId id =
        engine_->submit(std::move(request), [arrivals](const serve::RequestOutput& output) { arrivals->add(output); });
    bool is_cancelled = false;
    while (!arrivals->has_ended()) {
      for (const int32_t token : arrivals->take()) {
        if (!is_cancelled) printer.add(token);
      }
      if (interrupted && !is_cancelled) {
        engine_->cancel(id);
        is_cancelled = true;
      }
    }
    require<Error>(arrivals->error().empty(), "[easydel chat] ", arrivals->error());
    log::debug("[easydel chat] ", arrivals->cached(), " of the ", length, " tokens of the prompt were in the cache.");
  }

  void answer_by_generate(const EncodedChat& prompt, Printer& printer) {
    const std::vector<int32_t>& ids = prompt.ids;
    std::stop_source stop;
    GenerateOptions given{.generation_config = fitting(static_cast<int64_t>(ids.size())),
                          .prng_key = RandomKey(options_.seed).fold(turn_++)};
    given.streamer = [&](std::span<const int64_t> tokens) {
      if (tokens[0] >= 0) printer.add(tokens[0]);
      if (interrupted) stop.request_stop();
    };
    given.decode = [&](std::span<const int32_t> decoded) { return (*tokenizer_)->decode(decoded); };
    given.stop_token = stop.get_token();
    const at::Tensor input_ids = at::tensor(ids, at::kInt).to(at::kLong).unsqueeze(0);
    if (prompt.images) given.inputs = image_prompt(*prompt.images, *module_, input_ids);
    generate(*module_, input_ids, given);
  }

  // Token limit of a prompt and its answer; 0: unlimited.
  int64_t context() const {
    const int64_t positions = engine_ ? engine_->info().max_model_len : module_->config().max_position_embeddings;
    if (!config_.max_length || config_.max_new_tokens) return positions;
    return positions > 0 ? std::min(positions, *config_.max_length) : *config_.max_length;
  }

  // Drops the oldest messages until there is room for an answer. The system message stays, and a question is dropped
  // together with its answer.
  EncodedChat encode(const Json& messages) {
    const std::size_t first = system_.empty() ? 0 : 1;
    const int64_t room = std::min(config_.max_new_tokens.value_or(kNewTokens), std::max<int64_t>(context() / 4, 1));
    for (std::size_t skipped = left_out_;; skipped += 2) {
      Json sent = Json::array();
      for (std::size_t i = 0; i < messages.size(); ++i) {
        if (i < first || i >= first + skipped) sent.push_back(messages.at(i));
      }
      EncodedChat prompt = encode_all(sent);
      const auto length = static_cast<int64_t>(prompt.ids.size());
      const bool is_last = first + skipped + 1 >= messages.size();
      require<ConfigError>(context() <= 0 || !is_last || length < context(), "[easydel chat] the prompt has ", length,
                           " tokens; the model's context is ", context(), ".");
      if (context() > 0 && !is_last && length + room > context()) continue;
      if (skipped > left_out_)
        std::cerr << "(dropped the oldest " << skipped << " messages, because the context has only " << context()
                  << " tokens)\n";
      left_out_ = skipped;
      return prompt;
    }
  }

  EncodedChat encode_all(const Json& messages) const {
    if (!vision_) return {tokenizer_->encode_chat({.messages = messages, .add_generation_prompt = true}), nullptr};
    std::vector<std::string> files;
    for (const Json& message : messages.as_array()) {
      if (!message.at("content").is_array()) continue;
      for (const Json& part : message.at("content").as_array())
        if (const Json* file = part.find("path")) files.push_back(file->as_string());
    }
    const std::string source = tokenizer_->config().chat_templates.select().source();
    std::string text = tokenizer_
                           ->apply_chat_template({.messages = fit_contents(messages, source, vision_->image_token()),
                                                  .add_generation_prompt = true})
                           .text;
    std::shared_ptr<const ImageInputs> images;
    if (!files.empty()) {
      images = std::make_shared<ImageInputs>(vision_->load(files));
      text = vision_->expand(text, *images);
    }
    return {(*tokenizer_)->encode_ids(text, /*add_special_tokens=*/false), images};
  }

  // No more new tokens than fit in the context.
  GenerationConfig fitting(int64_t prompt) const {
    GenerationConfig config = config_;
    if (context() > 0 && config.max_new_tokens)
      config.max_new_tokens = std::min(*config.max_new_tokens, context() - prompt);
    return config;
  }

  const ChatArguments& options_;
  GenerationConfig config_;
  std::optional<AutoTokenizer> tokenizer_;
  std::shared_ptr<BaseModule> module_;
  std::shared_ptr<serve::Engine> engine_;          // none: generate
  std::shared_ptr<const VisionProcessor> vision_;  // none: text alone
  std::string system_;
  std::vector<std::string> images_;  // of the next message
  Json messages_;
  std::size_t left_out_ = 0;  // messages after the system's that are no longer sent
  uint64_t turn_ = 0;
};

}  // namespace

void add_chat_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "Chat with a model");
  auto options = std::make_shared<ChatArguments>();
  options->model.task = "causal-lm";
  add_model_options(*command, options->model);
  add_adapter_option(*command, options->model);
  command->add_option("--system", options->system, "System message");
  command
      ->add_option(
          "--image", options->images,
          "Image for the first message, inserted at its next placeholder (<image>) or before its text; can be repeated")
      ->type_name("FILE");
  command
      ->add_option("--audio", options->sounds,
                   "Audio file for the first message; refused, since no chat model of this build accepts audio")
      ->type_name("FILE");
  command->add_option("--seed", options->seed, "Random seed for --do-sample")->capture_default_str();
  add_generation_options(*command, options->generation);
  command->footer(concat("While chatting:\n", kHelp, "\n",
                         help_examples({"chat Qwen/Qwen3-0.6B --system \"Answer briefly.\" --temperature 0.7"})));
  command->callback([options, command] {
    require<UsageError>(
        options->sounds.empty(), "--audio: no chat model of this build accepts audio; got ",
        options->sounds.empty() ? "" : options->sounds.front(),
        ". Use a speech model: easydel generate openai/whisper-small --audio FILE, or easydel transcribe.");
    const HubOptions hub{.revision = options->model.revision};
    if (command->get_option("--task")->count() == 0 && has_text_part(options->model) &&
        (!options->images.empty() || VisionProcessor::is_in(resolve(options->model.model, hub))))
      options->model.task = task_name(TaskType::ImageTextToText);
    GenerationConfig model = GenerationConfig::from_pretrained(options->model.model, hub);
    if (!model.max_length && !model.max_new_tokens) model.max_new_tokens = kNewTokens;
    const GenerationConfig config = to_generation_config(options->generation, model);
    require<UsageError>(
        config.beams() == 1 && config.num_return_sequences.value_or(1) == 1,
        "easydel chat streams a single answer; --num-beams and --num-return-sequences are not supported.");
    require<UsageError>(
        rank_count(options->model) == 1, "easydel chat runs on one device; got ",
        options->model.devices ? concat("--devices ", *options->model.devices) : mesh_text(options->model),
        ". Use easydel generate on a mesh.");
    Chat(*options, config).run();
  });
}

}  // namespace easydel::cli
