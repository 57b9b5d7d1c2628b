// /v1/chat/completions: a whole answer, or chunks of it.
#include "easydel/core/json/strict_json.h"
#include "easydel/serve/openai/chat_choice.h"
#include "easydel/serve/openai/completions/chat_request.h"
#include "easydel/serve/openai/generation.h"
#include "easydel/serve/openai/routes.h"
#include "easydel/serve/openai/token_logprobs.h"

namespace easydel::serve {
namespace {

class ChatAnswer : public GenerationSink {
 public:
  ChatAnswer(const ApiCall& call, ChatRequest chat)
      : service_(call.service),
        reply_(call.reply),
        chat_(std::move(chat)),
        usage_(static_cast<std::size_t>(chat_.settings.n), static_cast<std::size_t>(chat_.settings.n)) {
    for (int64_t i = 0; i < chat_.settings.n; ++i) {
      choices_.emplace_back(chat_.prompt.format, chat_.tools.choice, chat_.tools.parallel, chat_.include_reasoning,
                            chat_.tools.specs());
    }
  }

 protected:
  bool wants_logprobs() const { return chat_.request.sampling.logprobs.has_value(); }
  Json logprobs_of(const RequestOutput& output) const {
    return chat_logprobs(*service_->tokenizer, output.logprobs, chat_.settings.tokens_as_ids);
  }

  std::shared_ptr<ServiceContext> service_;
  HttpReply reply_;
  ChatRequest chat_;
  std::vector<ChatChoice> choices_;
  UsageCounter usage_;
};

class ChatWhole : public ChatAnswer, public std::enable_shared_from_this<ChatWhole> {
 public:
  ChatWhole(const ApiCall& call, ChatRequest chat)
      : ChatAnswer(call, std::move(chat)), outputs_(static_cast<std::size_t>(chat_.settings.n)) {}

  bool output(std::size_t index, const RequestOutput& output) override {
    usage_.take(index, output);
    join_output(outputs_[index], output);
    return reply_.is_open();
  }

  // Log-probabilities are long, and would keep the engine waiting.
  void finished() override {
    if (!wants_logprobs() && !chat_.request.sampling.prompt_logprobs) return send();
    service_->workers.post([self = shared_from_this()] { self->send(); });
  }

  void failed(const ApiError& error) override { send_failure(reply_, nullptr, error); }

 private:
  void send() {
    try {
      reply_.send(json_response(answer()));
    } catch (...) {
      send_failure(reply_, nullptr, to_api_error(std::current_exception()));
    }
  }

  Json answer() {
    Json choices = Json::array();
    for (std::size_t i = 0; i < choices_.size(); ++i) choices.push_back(choice(i));
    Json answer = answer_json(chat_.settings, "chat.completion", std::move(choices));
    answer["usage"] = usage_json(usage_.total());
    if (chat_.request.sampling.prompt_logprobs) {
      answer["prompt_logprobs"] = prompt_logprobs_json(*service_->tokenizer, outputs_[0].prompt_logprobs);
    }
    if (chat_.settings.return_token_ids) answer["prompt_token_ids"] = Json(chat_.prompt.tokens);
    return answer;
  }

  Json choice(std::size_t i) {
    const RequestOutput& output = outputs_[i];
    choices_[i].take(output);
    Json choice = Json::object({{"index", i},
                                {"message", choices_[i].message(chat_.role, chat_.echo)},
                                {"logprobs", Json()},
                                {"finish_reason", choices_[i].finish_reason()},
                                {"stop_reason", stop_reason_json(output)}});
    if (wants_logprobs()) choice["logprobs"] = Json::object({{"content", logprobs_of(output)}, {"refusal", Json()}});
    if (chat_.settings.return_token_ids) choice["token_ids"] = Json(output.tokens);
    return choice;
  }

  std::vector<RequestOutput> outputs_;  // of each choice, joined
};

class ChatStream : public ChatAnswer {
 public:
  ChatStream(const ApiCall& call, ChatRequest chat)
      : ChatAnswer(call, std::move(chat)),
        stream_(call.reply),
        head_(chunk_head(chat_.settings, "chat.completion.chunk")),
        has_begun_(choices_.size()) {}

  bool output(std::size_t index, const RequestOutput& output) override {
    usage_.take(index, output);
    if (!has_begun_[index] && !begin(index)) return false;
    const MessageDelta delta = choices_[index].take(output);
    const bool has_tokens = wants_logprobs() || chat_.settings.return_token_ids;
    if (delta.empty() && !output.finish && (!has_tokens || output.tokens.empty())) return true;
    if (is_text_alone(delta) && !output.finish && !has_tokens && !chat_.settings.continuous_usage) {
      return stream_.text(chunk_text(chat_.settings, head_, text_choice(index, delta.content)));
    }
    Json choice = Json::object({{"index", index}, {"delta", delta_json(delta)}, {"logprobs", Json()}});
    if (wants_logprobs() && !output.logprobs.empty()) {
      choice["logprobs"] = Json::object({{"content", logprobs_of(output)}, {"refusal", Json()}});
    }
    choice["finish_reason"] = output.finish ? Json(choices_[index].finish_reason()) : Json();
    if (output.finish) choice["stop_reason"] = stop_reason_json(output);
    if (chat_.settings.return_token_ids) choice["token_ids"] = Json(output.tokens);
    return send(index, std::move(choice));
  }

  void finished() override {
    if (chat_.settings.include_usage) {
      Json chunk = answer_json(chat_.settings, "chat.completion.chunk", Json::array());
      chunk["usage"] = usage_json(usage_.total());
      stream_.data(chunk);
    }
    stream_.done();
  }

  void failed(const ApiError& error) override { send_failure(reply_, &stream_, error); }

 private:
  // Nearly all chunks are of this kind, and writing them takes the engine's time.
  static bool is_text_alone(const MessageDelta& delta) { return delta.reasoning.empty() && delta.tool_calls.empty(); }
  static std::string text_choice(std::size_t index, const std::string& content) {
    return concat(R"({"index": )", index, R"(, "delta": {"content": )", dump_strict(Json(content)),
                  R"(}, "logprobs": null, "finish_reason": null})");
  }

  // The role comes first, and alone.
  bool begin(std::size_t index) {
    has_begun_[index] = true;
    Json choice = Json::object({{"index", index},
                                {"delta", Json::object({{"role", chat_.role}, {"content", chat_.echo}})},
                                {"logprobs", Json()},
                                {"finish_reason", Json()}});
    return send(index, std::move(choice), /*with_prompt=*/true);
  }

  bool send(std::size_t index, Json choice, bool with_prompt = false) {
    Json chunk = answer_json(chat_.settings, "chat.completion.chunk", Json::array({std::move(choice)}));
    if (chat_.settings.continuous_usage) {
      chunk["usage"] = usage_json(usage_.of(index));
    } else if (chat_.settings.include_usage) {
      chunk["usage"] = Json();
    }
    if (with_prompt && chat_.settings.return_token_ids) chunk["prompt_token_ids"] = Json(chat_.prompt.tokens);
    return stream_.data(chunk);
  }

  EventStream stream_;
  std::string head_;
  std::vector<bool> has_begun_;
};

void answer_chat(ApiCall& call) {
  const Json body = parse_body(call.request.body);
  require_field(call.service->engine->info().can_generate, "model", "the model does not generate text.");
  ChatRequest chat = read_chat_request(*call.service, body);
  std::vector<Request> requests;
  for (int64_t i = 0; i < chat.settings.n; ++i) requests.push_back(choice_request(chat.request, i));
  std::shared_ptr<GenerationSink> sink;
  if (chat.settings.stream) {
    sink = std::make_shared<ChatStream>(call, std::move(chat));
  } else {
    sink = std::make_shared<ChatWhole>(call, std::move(chat));
  }
  start_generation(call, std::move(requests), std::move(sink));
}

}  // namespace

void add_chat_routes(Service& service) {
  service.add({.method = "POST", .path = "/v1/chat/completions", .handler = answer_chat});
}

}  // namespace easydel::serve
