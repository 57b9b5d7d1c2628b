#include "easydel/serve/openai/responses/responses.h"

#include <mutex>

#include "easydel/serve/openai/chat_choice.h"
#include "easydel/serve/openai/event_stream.h"
#include "easydel/serve/openai/generation.h"
#include "easydel/serve/openai/ids.h"
#include "easydel/serve/openai/responses/response_output.h"
#include "easydel/serve/openai/responses/response_request.h"
#include "easydel/serve/openai/token_logprobs.h"

namespace easydel::serve {
namespace {

constexpr std::size_t kResponsesKept = 1024;
constexpr std::size_t kResponseBytesKept = std::size_t{64} << 20;

class ResponseAnswer final : public GenerationSink, public std::enable_shared_from_this<ResponseAnswer> {
 public:
  ResponseAnswer(const ApiCall& call, std::shared_ptr<ResponseStore> store, ResponseRequest response)
      : service_(call.service),
        reply_(call.reply),
        store_(std::move(store)),
        asked_(std::move(response)),
        choice_(asked_.format, asked_.tools.choice, asked_.tools.parallel, /*include_reasoning=*/true,
                asked_.tools.specs()),
        output_([this](std::string_view type, Json event) { emit(type, std::move(event)); }),
        stream_(call.reply),
        id_(make_id("resp_")),
        created_(unix_time()) {}

  // The first events of a stream, at the latest before its first output.
  void begin() {
    const std::lock_guard lock(mutex_);
    if (!asked_.stream || has_begun_ || is_over_) return;
    has_begun_ = true;
    for (const char* type : {"response.created", "response.in_progress"}) {
      emit(type, Json::object({{"response", json("in_progress")}}));
    }
  }

  bool output(std::size_t, const RequestOutput& output) override {
    begin();
    const std::lock_guard lock(mutex_);
    usage_ = {.prompt_tokens = output.prompt_tokens,
              .completion_tokens = output.output_tokens,
              .cached_tokens = std::max(usage_.cached_tokens, output.cached_tokens)};
    if (output.finish) is_complete_ = *output.finish != Finish::Length;
    const MessageDelta delta = choice_.take(output);
    if (!delta.reasoning.empty() && delta.content.empty() && delta.tool_calls.empty()) {
      reasoning_tokens_ += static_cast<int64_t>(output.tokens.size());
    }
    output_.add(delta, chat_logprobs(*service_->tokenizer, output.logprobs, /*as_ids=*/false));
    return asked_.stream ? is_read_ : reply_.is_open();
  }

  // The whole answer is written once more, by a worker and not by the engine's thread.
  void finished() override {
    service_->workers.post([self = shared_from_this()] { self->end(); });
  }

  void failed(const ApiError& error) override {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    service_->metrics.http(error.status());
    if (!stream_.has_begun()) return reply_.send(error_response(error));
    Json response = json("failed");
    response["error"] = Json::object({{"code", "server_error"}, {"message", std::string(error.what())}});
    emit("response.failed", Json::object({{"response", std::move(response)}}));
    stream_.end();
  }

 private:
  void end() {
    try {
      send_whole();
    } catch (...) {
      failed(to_api_error(std::current_exception()));
    }
  }

  void send_whole() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    output_.finish(is_complete_);
    const char* status = is_complete_ ? "completed" : "incomplete";
    const Json response = json(status);
    if (asked_.store) keep(response);
    if (!asked_.stream) return reply_.send(json_response(response));
    emit(concat("response.", status), Json::object({{"response", response}}));
    stream_.end();
  }

  void emit(std::string_view type, Json event) {
    if (!asked_.stream) return;
    Json whole = Json::object({{"type", type}, {"sequence_number", sequence_++}});
    for (auto& [name, value] : event.as_object()) whole[name] = std::move(value);
    is_read_ = stream_.event(type, whole) && is_read_;
  }

  Json json(const std::string& status) const {
    Json response = Json::object({{"id", id_},
                                  {"object", "response"},
                                  {"created_at", created_},
                                  {"status", status},
                                  {"completed_at", Json()},
                                  {"error", Json()},
                                  {"incomplete_details", Json()},
                                  {"output", output_.items()},
                                  {"usage", Json()}});
    for (const auto& [name, value] : asked_.echo.as_object()) response[name] = value;
    if (status == "completed") response["completed_at"] = unix_time();
    if (status == "incomplete") response["incomplete_details"] = Json::object({{"reason", "max_output_tokens"}});
    if (status != "in_progress") response["usage"] = usage();
    return response;
  }

  Json usage() const {
    return Json::object(
        {{"input_tokens", usage_.prompt_tokens},
         {"input_tokens_details", Json::object({{"cached_tokens", usage_.cached_tokens}, {"cache_write_tokens", 0}})},
         {"output_tokens", usage_.completion_tokens},
         {"output_tokens_details", Json::object({{"reasoning_tokens", reasoning_tokens_}})},
         {"total_tokens", usage_.prompt_tokens + usage_.completion_tokens}});
  }

  void keep(const Json& response) {
    Json messages = asked_.messages;
    Json answer = output_.message();
    // Arguments as templates take them: what broke off is no JSON, and stays a text.
    if (const Json* calls = answer.find("tool_calls")) {
      Json parsed = *calls;
      for (Json& call : parsed.as_array()) {
        Json& arguments = call["function"]["arguments"];
        try {
          arguments = Json::parse(arguments.as_string());
        } catch (const FormatError&) {
          continue;
        }
      }
      answer["tool_calls"] = std::move(parsed);
    }
    if (!answer.is_null()) messages.push_back(std::move(answer));
    store_->put(id_, {.response = response, .messages = std::move(messages)});
  }

  std::mutex mutex_;  // begin() comes from another thread than the outputs
  std::shared_ptr<ServiceContext> service_;
  HttpReply reply_;
  std::shared_ptr<ResponseStore> store_;
  ResponseRequest asked_;
  ChatChoice choice_;
  ResponseOutput output_;
  EventStream stream_;
  std::string id_;
  int64_t created_;
  int64_t sequence_ = 0, reasoning_tokens_ = 0;
  Usage usage_;
  bool has_begun_ = false, is_over_ = false, is_complete_ = true, is_read_ = true;
};

void create_response(ApiCall& call, const std::shared_ptr<ResponseStore>& store) {
  const Json body = parse_body(call.request.body);
  require_field(call.service->engine->info().can_generate, "model", "the model does not generate text.");
  ResponseRequest response = read_response_request(*call.service, *store, body);
  std::vector<Request> requests{response.request};
  const auto answer = std::make_shared<ResponseAnswer>(call, store, std::move(response));
  start_generation(call, std::move(requests), answer);
  answer->begin();
}

ApiError response_missing(const std::string& id) {
  return {404, concat("Response with id '", id, "' not found."), "id", "response_not_found"};
}

void get_response(const ApiCall& call, ResponseStore& store) {
  if (!call.request.query.empty()) {
    refuse_field("", "GET of a response takes no query parameters; got ", call.request.query, ".");
  }
  const auto found = store.get(call.tail);
  if (!found) throw response_missing(call.tail);
  call.reply.send(json_response(found->response));
}

void delete_response(const ApiCall& call, ResponseStore& store) {
  if (!store.erase(call.tail)) throw response_missing(call.tail);
  call.reply.send(json_response(Json::object({{"id", call.tail}, {"object", "response"}, {"deleted", true}})));
}

void cancel_response(const ApiCall& call, ResponseStore& store) {
  constexpr std::string_view kEnd = "/cancel";
  const std::string id = call.tail.substr(0, call.tail.size() - std::min(call.tail.size(), kEnd.size()));
  if (!call.tail.ends_with(kEnd)) throw ApiError(404, concat("Not found: POST /v1/responses/", call.tail));
  if (!store.get(id)) throw response_missing(id);
  refuse_field("id", "a response that does not run in the background cannot be cancelled: leave its connection.");
}

}  // namespace

void add_response_routes(Service& service) {
  const auto store = std::make_shared<ResponseStore>(kResponsesKept, kResponseBytesKept);
  const auto add = [&](const char* method, const char* path, ApiHandler handler) {
    service.add({.method = method, .path = path, .handler = std::move(handler)});
  };
  add("POST", "/v1/responses", [store](ApiCall& call) { create_response(call, store); });
  add("GET", "/v1/responses/*", [store](ApiCall& call) { get_response(call, *store); });
  add("DELETE", "/v1/responses/*", [store](ApiCall& call) { delete_response(call, *store); });
  add("POST", "/v1/responses/*", [store](ApiCall& call) { cancel_response(call, *store); });
}

}  // namespace easydel::serve
