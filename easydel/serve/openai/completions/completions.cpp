// /v1/completions: a whole answer, or chunks of it.
#include "easydel/core/json/strict_json.h"
#include "easydel/serve/openai/completions/completion_request.h"
#include "easydel/serve/openai/generation.h"
#include "easydel/serve/openai/routes.h"
#include "easydel/serve/openai/token_logprobs.h"

namespace easydel::serve {
namespace {

// One choice as it grows. With echo it begins with the prompt.
class CompletionChoice {
 public:
  CompletionChoice(const Tokenizer& tokenizer, const CompletionRequest& all, std::size_t prompt)
      : all_(&all), prompt_(&all.prompts[prompt]), logprobs_(tokenizer, all.settings.tokens_as_ids) {}

  // The text that an output adds.
  std::string take(const RequestOutput& output) {
    std::string text = begin(output);
    if (all_->echo_alone) return text;
    if (all_->sampling.logprobs) {
      for (const TokenLogprobs& one : output.logprobs) logprobs_.add(one);
    }
    return text + output.text;
  }

  Json logprobs() { return all_->sampling.logprobs ? logprobs_.take() : Json(); }
  bool has_logprobs() const { return !logprobs_.empty(); }

 private:
  std::string begin(const RequestOutput& output) {
    if (has_begun_) return "";
    has_begun_ = true;
    if (!all_->echo) return "";
    if (all_->sampling.logprobs && !prompt_->tokens.empty()) {
      logprobs_.add_unknown(prompt_->tokens.front());
      for (const TokenLogprobs& one : output.prompt_logprobs) logprobs_.add(one);
    }
    return prompt_->text;
  }

  const CompletionRequest* all_;
  const CompletionPrompt* prompt_;
  CompletionLogprobs logprobs_;
  bool has_begun_ = false;
};

class CompletionAnswer : public GenerationSink {
 public:
  CompletionAnswer(const ApiCall& call, CompletionRequest request)
      : service_(call.service),
        reply_(call.reply),
        request_(std::move(request)),
        usage_(request_.prompts.size() * static_cast<std::size_t>(request_.settings.n),
               static_cast<std::size_t>(request_.settings.n)) {
    for (std::size_t i = 0; i < request_.prompts.size() * static_cast<std::size_t>(request_.settings.n); ++i) {
      choices_.emplace_back(*service_->tokenizer, request_, prompt_of(i));
    }
  }

 protected:
  std::size_t prompt_of(std::size_t index) const { return index / static_cast<std::size_t>(request_.settings.n); }
  void count(std::size_t index, const RequestOutput& output) {
    usage_.take(index, output);
    if (request_.echo_alone) usage_.clear_completion(index);
  }
  // A token that was only drawn because the engine draws at least one is nobody's.
  std::string finish_reason(Finish finish) const {
    return request_.echo_alone ? "length" : std::string(finish_name(finish));
  }

  std::shared_ptr<ServiceContext> service_;
  HttpReply reply_;
  CompletionRequest request_;
  std::vector<CompletionChoice> choices_;
  UsageCounter usage_;
};

class CompletionWhole : public CompletionAnswer, public std::enable_shared_from_this<CompletionWhole> {
 public:
  CompletionWhole(const ApiCall& call, CompletionRequest request)
      : CompletionAnswer(call, std::move(request)), outputs_(choices_.size()) {}

  bool output(std::size_t index, const RequestOutput& output) override {
    count(index, output);
    join_output(outputs_[index], output);
    return reply_.is_open();
  }

  // Log-probabilities are long, and would keep the engine waiting.
  void finished() override {
    if (!request_.sampling.logprobs && !request_.sampling.prompt_logprobs) return send();
    service_->workers.post([self = shared_from_this()] { self->send(); });
  }

  void failed(const ApiError& error) override { send_failure(reply_, nullptr, error); }

 private:
  void send() {
    try {
      Json choices = Json::array();
      for (std::size_t i = 0; i < choices_.size(); ++i) choices.push_back(choice(i));
      Json answer = answer_json(request_.settings, "text_completion", std::move(choices));
      answer["usage"] = usage_json(usage_.total());
      reply_.send(json_response(answer));
    } catch (...) {
      send_failure(reply_, nullptr, to_api_error(std::current_exception()));
    }
  }

  Json choice(std::size_t i) {
    const RequestOutput& output = outputs_[i];
    const std::string text = choices_[i].take(output);
    Json choice = Json::object({{"index", i},
                                {"text", text},
                                {"logprobs", choices_[i].logprobs()},
                                {"finish_reason", finish_reason(*output.finish)},
                                {"stop_reason", request_.echo_alone ? Json() : stop_reason_json(output)}});
    if (request_.returns_prompt_logprobs) {
      choice["prompt_logprobs"] = prompt_logprobs_json(*service_->tokenizer, output.prompt_logprobs);
    }
    if (request_.settings.return_token_ids) {
      choice["token_ids"] = request_.echo_alone ? Json::array() : Json(output.tokens);
      choice["prompt_token_ids"] = Json(request_.prompts[prompt_of(i)].tokens);
    }
    return choice;
  }

  std::vector<RequestOutput> outputs_;  // of each choice, joined
};

class CompletionStream : public CompletionAnswer {
 public:
  CompletionStream(const ApiCall& call, CompletionRequest request)
      : CompletionAnswer(call, std::move(request)),
        stream_(call.reply),
        head_(chunk_head(request_.settings, "text_completion")),
        has_begun_(choices_.size()) {}

  bool output(std::size_t index, const RequestOutput& output) override {
    count(index, output);
    const std::string text = choices_[index].take(output);
    const bool returns_ids = request_.settings.return_token_ids && !output.tokens.empty();
    if (text.empty() && !output.finish && !choices_[index].has_logprobs() && !returns_ids) return true;
    const bool is_text_alone = !output.finish && !request_.sampling.logprobs && !request_.settings.return_token_ids &&
                               !request_.settings.continuous_usage;
    if (is_text_alone) return stream_.text(chunk_text(request_.settings, head_, text_choice(index, text)));
    Json choice =
        Json::object({{"index", index},
                      {"text", text},
                      {"logprobs", choices_[index].has_logprobs() ? choices_[index].logprobs() : Json()},
                      {"finish_reason", output.finish ? Json(finish_reason(*output.finish)) : Json()},
                      {"stop_reason", output.finish && !request_.echo_alone ? stop_reason_json(output) : Json()}});
    if (request_.settings.return_token_ids) {
      choice["token_ids"] = request_.echo_alone ? Json::array() : Json(output.tokens);
      if (!has_begun_[index]) choice["prompt_token_ids"] = Json(request_.prompts[prompt_of(index)].tokens);
    }
    has_begun_[index] = true;
    Json chunk = answer_json(request_.settings, "text_completion", Json::array({std::move(choice)}));
    if (request_.settings.continuous_usage) {
      chunk["usage"] = usage_json(usage_.of(index));
    } else if (request_.settings.include_usage) {
      chunk["usage"] = Json();
    }
    return stream_.data(chunk);
  }

  void finished() override {
    if (request_.settings.include_usage) {
      Json chunk = answer_json(request_.settings, "text_completion", Json::array());
      chunk["usage"] = usage_json(usage_.total());
      stream_.data(chunk);
    }
    stream_.done();
  }

  void failed(const ApiError& error) override { send_failure(reply_, &stream_, error); }

 private:
  // Nearly all chunks are of this kind, and writing them takes the engine's time.
  static std::string text_choice(std::size_t index, const std::string& text) {
    return concat(R"({"index": )", index, R"(, "text": )", dump_strict(Json(text)),
                  R"(, "logprobs": null, "finish_reason": null, "stop_reason": null})");
  }

  EventStream stream_;
  std::string head_;
  std::vector<bool> has_begun_;
};

void answer_completion(ApiCall& call) {
  const Json body = parse_body(call.request.body);
  require_field(call.service->engine->info().can_generate, "model", "the model does not generate text.");
  CompletionRequest request = read_completion_request(*call.service, body);
  std::vector<Request> requests;
  for (const CompletionPrompt& prompt : request.prompts) {
    Request one{.prompt = prompt.tokens,
                .sampling = request.sampling,
                .priority = request.settings.priority,
                .adapter = request.settings.model.adapter,
                .kind = RequestKind::Generate};
    one.sampling.max_tokens = prompt.max_tokens;
    for (int64_t i = 0; i < request.settings.n; ++i) requests.push_back(choice_request(one, i));
  }
  std::shared_ptr<GenerationSink> sink;
  if (request.settings.stream) {
    sink = std::make_shared<CompletionStream>(call, std::move(request));
  } else {
    sink = std::make_shared<CompletionWhole>(call, std::move(request));
  }
  start_generation(call, std::move(requests), std::move(sink));
}

}  // namespace

void add_completion_routes(Service& service) {
  service.add({.method = "POST", .path = "/v1/completions", .handler = answer_completion});
}

}  // namespace easydel::serve
