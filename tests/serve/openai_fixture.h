// The service without sockets and without a model: an engine that follows a script, and replies that are recorded.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/serve/engine/engine.h"
#include "easydel/serve/http/http_reply.h"
#include "easydel/serve/openai/service.h"
#include "tests/support/word_tokenizer.h"

namespace easydel::serve::testing_support {

// Outputs of each request come inside of submit, or when the test calls emit.
class ScriptedEngine : public Engine {
 public:
  std::vector<RequestOutput> script;                  // of every request; empty: the test emits
  std::function<void(const Request&)> before_submit;  // may throw or wait
  EngineStats numbers;
  EngineInfo facts{.vocab_size = 31, .max_model_len = 64, .max_num_seqs = 8, .eos_token_ids = {2}};

  RequestId submit(Request request, OutputCallback callback) override {
    if (before_submit) before_submit(request);
    RequestId id = 0;
    int64_t prompt = 0;
    {
      const std::lock_guard lock(mutex_);
      prompt = static_cast<int64_t>(request.prompt.size());
      requests_.push_back(std::move(request));
      callbacks_.push_back(callback);
      id = requests_.size();
    }
    changed_.notify_all();
    int64_t made = 0;
    for (RequestOutput output : script) {
      made += static_cast<int64_t>(output.tokens.size());
      output.prompt_tokens = prompt;
      output.output_tokens = made;
      callback(output);
    }
    return id;
  }
  void cancel(RequestId id) override {
    {
      const std::lock_guard lock(mutex_);
      cancelled_.push_back(id);
    }
    changed_.notify_all();
  }
  bool drain(std::chrono::milliseconds) override { return true; }
  void load_adapter(const std::string& name, const std::string& directory) override {
    const std::lock_guard lock(mutex_);
    require<ConfigError>(!loaded_.contains(name), "[adapter] ", name, " is loaded.");
    loaded_[name] = directory;
  }
  void unload_adapter(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    loaded_.erase(name);
  }
  std::vector<std::string> adapters() const override {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, directory] : loaded_) names.push_back(name);
    return names;
  }
  EngineStats stats() const override { return numbers; }
  const EngineInfo& info() const override { return facts; }

  void emit(std::size_t index, const RequestOutput& output) {
    OutputCallback callback;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return callbacks_.size() > index; });
      callback = callbacks_[index];
    }
    callback(output);
  }
  void wait_for_requests(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return requests_.size() >= count; });
  }
  std::vector<RequestId> wait_for_cancelled(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return cancelled_.size() >= count; });
    return cancelled_;
  }
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  const Request last() const { return requests().back(); }
  void forget_callbacks() {
    const std::lock_guard lock(mutex_);
    callbacks_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Request> requests_;
  std::vector<OutputCallback> callbacks_;
  std::vector<RequestId> cancelled_;
  std::map<std::string, std::string> loaded_;
};

class RecordedReply : public HttpReply::Impl {
 public:
  void send(HttpResponse response) override {
    const std::lock_guard lock(mutex_);
    response_ = std::move(response);
    has_ended_ = true;
    changed_.notify_all();
  }
  void begin(HttpResponse head) override {
    const std::lock_guard lock(mutex_);
    response_ = std::move(head);
    is_stream_ = true;
  }
  bool write(std::string_view bytes) override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(is_stream_);
    if (!is_open_) return false;
    response_.body += bytes;
    return true;
  }
  void end() override {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }
  bool is_open() const override {
    const std::lock_guard lock(mutex_);
    return is_open_;
  }
  void on_close(std::function<void()> callback) override {
    {
      const std::lock_guard lock(mutex_);
      if (is_open_) return callbacks_.push_back(std::move(callback));
    }
    callback();
  }

  HttpResponse wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return has_ended_; });
    return response_;
  }
  void leave() {
    std::vector<std::function<void()>> callbacks;
    {
      const std::lock_guard lock(mutex_);
      is_open_ = false;
      callbacks.swap(callbacks_);
    }
    for (const auto& callback : callbacks) callback();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  HttpResponse response_;
  bool is_stream_ = false, has_ended_ = false, is_open_ = true;
  std::vector<std::function<void()>> callbacks_;
};

struct Answer {
  int status = 0;
  Json json;                 // of a whole answer
  std::vector<Json> events;  // of a stream
  bool is_done = false;      // data: [DONE]
  HttpResponse raw;

  std::string error_param() const {
    const Json* param = json.at("error").find("param");
    return param && param->is_string() ? param->as_string() : "";
  }
  std::string error_message() const { return json.at("error").at("message").as_string(); }
  std::string header(std::string_view name) const {
    for (const auto& [key, value] : raw.headers) {
      if (key == name) return value;
    }
    return "";
  }
};

inline Answer read_answer(HttpResponse response) {
  Answer answer{.status = response.status, .json = {}, .events = {}, .raw = response};
  if (response.content_type.starts_with("application/json")) answer.json = Json::parse(response.body);
  if (!response.content_type.starts_with("text/event-stream")) return answer;
  for (std::size_t at = 0; at < response.body.size();) {
    const std::size_t end = response.body.find("\n\n", at);
    const std::string line = response.body.substr(at, end - at);
    EXPECT_TRUE(line.starts_with("data: ")) << line;
    if (line == "data: [DONE]")
      answer.is_done = true;
    else
      answer.events.push_back(Json::parse(line.substr(6)));
    at = end + 2;
  }
  return answer;
}

inline RequestOutput piece(std::string text, std::vector<int32_t> tokens, std::optional<Finish> finish = {}) {
  RequestOutput output;
  output.text = std::move(text);
  output.tokens = std::move(tokens);
  output.finish = finish;
  return output;
}

inline TokenLogprobs logprob(int32_t token, float value, std::vector<TokenLogprob> top = {}) {
  return {.chosen = {token, value}, .rank = 1, .top = std::move(top)};
}

// Roles, tools and a generation prompt, each as words of the tokenizer or as text that tests look for.
inline constexpr const char* kPlainTemplate =
    "{% for m in messages %}{{ m.role }} {{ m.content }}{% for c in m.tool_calls or [] %} {{ c.function.arguments.x }}"
    "{% endfor %} {% endfor %}{% if tools %}tools {{ tools | length }} {% endif %}{{ extra or '' }}"
    "{% if add_generation_prompt %}z{% endif %}";
inline constexpr const char* kToolTemplate = "{# <tool_call> #}{% for m in messages %}{{ m.content }} {% endfor %}z";
inline constexpr const char* kThinkTemplate =
    "{% for m in messages %}{{ m.content }} {% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}";

class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() { options.chat_template = kPlainTemplate; }
  // What the engine keeps of the service goes first.
  ~ServiceTest() override { engine->forget_callbacks(); }

  Service& service() {
    if (!service_) {
      service_ = std::make_unique<Service>(engine, easydel::testing_support::word_tokenizer(), options);
    }
    return *service_;
  }
  void restart() { service_.reset(); }

  std::shared_ptr<RecordedReply> start(std::string method, std::string path, std::string body = "",
                                       std::vector<std::pair<std::string, std::string>> headers = {}) {
    auto reply = std::make_shared<RecordedReply>();
    service().handle({.method = std::move(method),
                      .path = std::move(path),
                      .query = {},
                      .headers = std::move(headers),
                      .body = std::move(body),
                      .remote = {}},
                     HttpReply(reply));
    return reply;
  }
  Answer get(std::string path) { return read_answer(start("GET", std::move(path))->wait()); }
  Answer post(std::string path, std::string body) {
    return read_answer(start("POST", std::move(path), std::move(body))->wait());
  }
  // A chat with one message, and these fields beside it: R"("n": 2)".
  Answer chat(const std::string& fields = "") {
    return post("/v1/chat/completions",
                R"({"messages": [{"role": "user", "content": "a b"}])" + (fields.empty() ? "" : ", " + fields) + "}");
  }
  Answer complete(const std::string& fields) { return post("/v1/completions", "{" + fields + "}"); }

  std::shared_ptr<ScriptedEngine> engine = std::make_shared<ScriptedEngine>();
  ServiceOptions options;

 private:
  std::unique_ptr<Service> service_;
};

}  // namespace easydel::serve::testing_support
