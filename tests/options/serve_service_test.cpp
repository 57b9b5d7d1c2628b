// What the options of the OpenAI-compatible service do, with an engine that follows a script.
#include <barrier>
#include <future>

#include "tests/serve/openai_fixture.h"
#include "tests/support/probe.h"

namespace easydel::serve::testing_support {
namespace {

using easydel::testing_support::is_refused;

// The fixture of the service's own tests, by hand.
class ServiceProbe : public ServiceTest {
 public:
  explicit ServiceProbe(const std::function<void(ServiceOptions&)>& change = {}) {
    engine->script = {piece("c", {7}, Finish::Stop)};
    if (change) change(options);
  }
  void TestBody() override {}
  using ServiceTest::chat;
  using ServiceTest::complete;
  using ServiceTest::engine;
  using ServiceTest::get;
  using ServiceTest::options;
  using ServiceTest::post;
  using ServiceTest::service;
  using ServiceTest::start;
};

Json message_of(const Answer& answer) { return answer.json.at("choices").at(0).at("message"); }

PROBE(ServiceOptions, served_model_names) {
  ServiceProbe probe([](ServiceOptions& o) { o.served_model_names = {"mine"}; });
  EXPECT_EQ(probe.get("/v1/models").json.at("data").at(0).at("id"), Json("mine"));
  EXPECT_EQ(probe.chat(R"("model": "other")").status, 404);
}
PROBE(ServiceOptions, model_root) {
  ServiceProbe probe([](ServiceOptions& o) { o.model_root = "org/name"; });
  EXPECT_EQ(probe.get("/v1/models").json.at("data").at(0).at("root"), Json("org/name"));
}
PROBE(ServiceOptions, api_keys) {
  ServiceProbe open, closed([](ServiceOptions& o) { o.api_keys = {"secret"}; });
  EXPECT_EQ(open.get("/v1/models").status, 200);
  EXPECT_EQ(closed.get("/v1/models").status, 401);
}
PROBE(ServiceOptions, chat_template) {
  ServiceProbe probe([](ServiceOptions& o) { o.chat_template = "q r"; });
  probe.chat();
  EXPECT_EQ(probe.engine->last().prompt, (std::vector<int32_t>{21, 22}));
}
PROBE(ServiceOptions, trust_request_chat_template) {
  ServiceProbe careful, trusting([](ServiceOptions& o) { o.trust_request_chat_template = true; });
  EXPECT_EQ(careful.chat(R"("chat_template": "q r")").status, 400);
  EXPECT_EQ(trusting.chat(R"("chat_template": "q r")").status, 200);
  EXPECT_EQ(trusting.engine->last().prompt, (std::vector<int32_t>{21, 22}));
}
PROBE(ServiceOptions, allowed_local_media_path) {
  // Of models that see: models/llava_serve_test.py.
  ServiceProbe probe([](ServiceOptions& o) { o.allowed_local_media_path = "/"; });
  EXPECT_TRUE(is_refused("allowed_local_media_path applies to images", [&] { probe.service(); }));
}
PROBE(ServiceOptions, allowed_media_domains) {
  ServiceProbe probe([](ServiceOptions& o) { o.allowed_media_domains = {"example.com"}; });
  EXPECT_TRUE(is_refused("allowed_media_domains applies to images", [&] { probe.service(); }));
}
PROBE(ServiceOptions, tool_parser) {
  const auto finds_a_call = [](const std::string& parser) {
    ServiceProbe probe([&](ServiceOptions& o) {
      o.chat_template = kToolTemplate;
      o.tool_parser = parser;
    });
    probe.engine->script = {
        piece("<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", {6}, Finish::Stop)};
    const Answer answer =
        probe.chat(R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])");
    if (answer.status != 200) return false;
    const Json message = message_of(answer);
    const Json* calls = message.find("tool_calls");
    return calls && calls->size() == 1;
  };
  EXPECT_TRUE(finds_a_call("auto"));
  EXPECT_FALSE(finds_a_call(""));
}
PROBE(ServiceOptions, reasoning_parser) {
  const auto content = [](const std::string& parser) {
    ServiceProbe probe([&](ServiceOptions& o) {
      o.chat_template = kThinkTemplate;
      o.reasoning_parser = parser;
    });
    probe.engine->script = {piece("e</think>c", {10}, Finish::Stop)};
    return message_of(probe.chat()).at("content");
  };
  EXPECT_EQ(content("auto"), Json("c"));
  EXPECT_EQ(content(""), Json("e</think>c"));
}
PROBE(ServiceOptions, default_sampling) {
  ServiceProbe probe([](ServiceOptions& o) { o.default_sampling.temperature = 0.25; });
  probe.chat();
  EXPECT_EQ(probe.engine->last().sampling.temperature, 0.25);
}
PROBE(ServiceOptions, max_logprobs) {
  ServiceProbe probe([](ServiceOptions& o) { o.max_logprobs = 2; });
  EXPECT_EQ(probe.chat(R"("logprobs": true, "top_logprobs": 3)").error_param(), "top_logprobs");
}
PROBE(ServiceOptions, max_choices) {
  ServiceProbe probe([](ServiceOptions& o) { o.max_choices = 2; });
  EXPECT_EQ(probe.chat(R"("n": 2)").status, 200);
  EXPECT_EQ(probe.chat(R"("n": 3)").error_param(), "n");
}
PROBE(ServiceOptions, max_queue) {
  ServiceProbe probe([](ServiceOptions& o) {
    o.workers = 1;
    o.max_queue = 1;
  });
  std::promise<void> entered, released;
  probe.engine->before_submit = [&, is_first = true](const Request&) mutable {
    if (!std::exchange(is_first, false)) return;
    entered.set_value();
    released.get_future().wait();
  };
  const auto running = probe.start("POST", "/v1/completions", R"({"prompt": "a"})");
  entered.get_future().wait();
  const auto waiting = probe.start("POST", "/v1/completions", R"({"prompt": "a"})");
  EXPECT_EQ(probe.start("POST", "/v1/completions", R"({"prompt": "a"})")->wait().status, 429);
  released.set_value();
  EXPECT_EQ(running->wait().status, 200);
  EXPECT_EQ(waiting->wait().status, 200);
}
// Three at once can only meet on three threads.
PROBE(ServiceOptions, workers) {
  ServiceProbe probe([](ServiceOptions& o) { o.workers = 3; });
  std::barrier meeting(3);
  probe.engine->before_submit = [&](const Request&) { meeting.arrive_and_wait(); };
  std::vector<std::shared_ptr<RecordedReply>> replies;
  for (int i = 0; i < 3; ++i) replies.push_back(probe.start("POST", "/v1/completions", R"({"prompt": "a"})"));
  for (const auto& reply : replies) EXPECT_EQ(reply->wait().status, 200);
}
PROBE(ServiceOptions, retry_after) {
  ServiceProbe probe([](ServiceOptions& o) { o.retry_after = std::chrono::seconds(7); });
  probe.engine->before_submit = [](const Request&) { throw QueueFullError("[engine] full."); };
  EXPECT_EQ(probe.chat().header("Retry-After"), "7");
}
PROBE(ServiceOptions, request_timeout) {
  ServiceProbe probe([](ServiceOptions& o) { o.request_timeout = std::chrono::milliseconds(1); });
  probe.engine->script.clear();  // no answer comes
  EXPECT_EQ(probe.chat().status, 504);
}
PROBE(ServiceOptions, enable_page) {
  ServiceProbe with, without([](ServiceOptions& o) { o.enable_page = false; });
  EXPECT_EQ(with.start("GET", "/")->wait().status, 200);
  EXPECT_EQ(without.start("GET", "/")->wait().status, 404);
}
PROBE(ServiceOptions, enable_adapters) {
  const std::string body = R"({"lora_name": "mine", "lora_path": "/x"})";
  ServiceProbe with, without([](ServiceOptions& o) { o.enable_adapters = false; });
  EXPECT_EQ(with.post("/v1/load_lora_adapter", body).status, 200);
  EXPECT_EQ(without.post("/v1/load_lora_adapter", body).status, 404);
}
PROBE(ServiceOptions, response_role) {
  ServiceProbe probe([](ServiceOptions& o) { o.response_role = "bot"; });
  EXPECT_EQ(message_of(probe.chat()).at("role"), Json("bot"));
}
PROBE(ServiceOptions, version) {
  ServiceProbe probe([](ServiceOptions& o) { o.version = "9.9"; });
  EXPECT_EQ(probe.get("/version").json.at("version"), Json("9.9"));
}

}  // namespace
}  // namespace easydel::serve::testing_support
