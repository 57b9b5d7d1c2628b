#include "tests/serve/openai_fixture.h"

#include <future>

namespace easydel::serve::testing_support {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(ServiceTest, AnswersUnknownPathsAndMethods) {
  const Answer unknown = get("/v1/nothing");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.json.at("error").at("code"), Json("unknown_url"));
  const Answer method = get("/v1/chat/completions");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.header("Allow"), "POST");
  EXPECT_EQ(method.json.at("error").at("type"), Json("invalid_request_error"));
}

TEST_F(ServiceTest, AsksForTheKeyWhereItMust) {
  options.api_keys = {"secret", "other"};
  const auto status = [&](const std::string& path, const std::string& given) {
    return start("GET", path, "", {{"authorization", given}})->wait().status;
  };
  EXPECT_EQ(status("/v1/models", ""), 401);
  EXPECT_EQ(status("/v1/models", "Bearer secre"), 401);
  EXPECT_EQ(status("/v1/models", "Bearer secrets"), 401);
  EXPECT_EQ(status("/v1/models", "Bearer "), 401);
  EXPECT_EQ(status("/v1/models", "Basic secret"), 401);
  EXPECT_EQ(status("/v1/models", "Bearer secret"), 200);
  EXPECT_EQ(status("/v1/models", "bearer other"), 200);
  EXPECT_EQ(status("/health", ""), 200);
  EXPECT_EQ(status("/metrics", ""), 200);
  EXPECT_EQ(get("/v1/models").json.at("error").at("type"), Json("authentication_error"));
}

TEST_F(ServiceTest, RefusesBodiesThatAreNoObject) {
  for (const char* body : {"", "[]", "{", "{\"model\": \"\xff\"}", "{\"a\": 1} x"}) {
    const Answer answer = post("/v1/chat/completions", body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(answer.json.at("error").at("type"), Json("invalid_request_error"));
  }
}

TEST_F(ServiceTest, SaysWhenToRetryWhenTheEngineIsFull) {
  options.retry_after = std::chrono::seconds(7);
  engine->before_submit = [](const Request&) { throw QueueFullError("[Engine] 4 requests wait."); };
  const Answer answer = chat();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.header("Retry-After"), "7");
  EXPECT_EQ(answer.json.at("error").at("type"), Json("rate_limit_error"));
}

TEST_F(ServiceTest, RefusesWhenTooManyWaitForAWorker) {
  options.workers = 1;
  options.max_queue = 1;
  std::promise<void> entered, released;
  engine->before_submit = [&, first = true](const Request&) mutable {
    if (std::exchange(first, false)) {
      entered.set_value();
      released.get_future().wait();
    }
  };
  engine->script = {piece("c", {7}, Finish::Stop)};
  const std::string body = R"({"prompt": "a"})";
  const auto running = start("POST", "/v1/completions", body);
  entered.get_future().wait();
  const auto waiting = start("POST", "/v1/completions", body);
  EXPECT_EQ(start("POST", "/v1/completions", body)->wait().status, 429);
  EXPECT_EQ(get("/health").status, 200);  // not for a worker
  released.set_value();
  EXPECT_EQ(running->wait().status, 200);
  EXPECT_EQ(waiting->wait().status, 200);
}

TEST_F(ServiceTest, NamesTheFieldThatTheEngineRefuses) {
  engine->before_submit = [](const Request&) { throw ConfigError("[SamplingParams] top_p must be good; got bad."); };
  const Answer answer = chat(R"("top_p": 0.5)");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.error_param(), "top_p");
  engine->before_submit = [](const Request&) { throw std::runtime_error("boom"); };
  EXPECT_EQ(chat().status, 500);
}

TEST_F(ServiceTest, LeavesNoRequestBehindWhenOneOfSeveralIsRefused) {
  engine->before_submit = [count = 0](const Request&) mutable {
    if (++count == 3) throw QueueFullError("full");
  };
  EXPECT_EQ(chat(R"("n": 4)").status, 429);
  EXPECT_THAT(engine->wait_for_cancelled(2), ElementsAre(1, 2));
}

TEST_F(ServiceTest, CancelsWhenTheClientLeaves) {
  const auto reply = start("POST", "/v1/completions", R"({"prompt": "a", "n": 2, "stream": true})");
  engine->emit(0, piece("b", {6}));
  engine->wait_for_requests(2);
  // The callback is registered once all are submitted; an output after that cannot overtake it.
  reply->leave();
  EXPECT_THAT(engine->wait_for_cancelled(2), ElementsAre(1, 2));
  engine->emit(0, piece("c", {7}, Finish::Cancelled));  // nothing is sent, nothing breaks
}

TEST_F(ServiceTest, TellsFailuresOfTheEngine) {
  RequestOutput failure = piece("", {}, Finish::Error);
  failure.error = "a row of NaN";
  engine->script = {failure};
  const Answer whole = chat();
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(whole.error_message(), "a row of NaN");
  EXPECT_EQ(chat(R"("stream": true)").status, 500);  // nothing was sent yet

  engine->script = {piece("c", {7}), failure};
  const Answer stream = chat(R"("stream": true)");
  EXPECT_EQ(stream.status, 200);
  EXPECT_EQ(stream.events.back().at("error").at("message"), Json("a row of NaN"));
  EXPECT_TRUE(stream.is_done);
}

TEST_F(ServiceTest, EndsAnswersThatTakeTooLong) {
  options.request_timeout = std::chrono::milliseconds(1);
  const Answer answer = chat();
  EXPECT_EQ(answer.status, 504);
  EXPECT_THAT(engine->wait_for_cancelled(1), ElementsAre(1));
}

TEST_F(ServiceTest, ListsModelsAndAdapters) {
  options.served_model_names = {"tiny", "org/alias"};
  EXPECT_EQ(post("/v1/load_lora_adapter", R"({"lora_name": "mine", "lora_path": "/x"})").status, 200);
  EXPECT_EQ(post("/v1/load_lora_adapter", R"({"lora_name": "mine", "lora_path": "/x"})").status, 400);
  EXPECT_EQ(post("/v1/load_lora_adapter", R"({"lora_name": "tiny", "lora_path": "/x"})").error_param(), "lora_name");
  EXPECT_EQ(post("/v1/load_lora_adapter", R"({"lora_name": "b"})").error_param(), "lora_path");
  const Json list = get("/v1/models").json;
  ASSERT_EQ(list.at("data").size(), 3U);
  EXPECT_EQ(list.at("data").at(0).at("id"), Json("tiny"));
  EXPECT_EQ(list.at("data").at(2).at("id"), Json("mine"));
  EXPECT_EQ(list.at("data").at(2).at("parent"), Json("tiny"));
  EXPECT_EQ(get("/v1/models/org/alias").json.at("max_model_len"), Json(64));
  EXPECT_EQ(get("/v1/models/none").status, 404);

  engine->script = {piece("c", {7}, Finish::Stop)};
  EXPECT_EQ(chat(R"("model": "mine")").json.at("model"), Json("mine"));
  EXPECT_EQ(engine->last().adapter, "mine");
  EXPECT_EQ(chat(R"("model": "org/alias")").json.at("model"), Json("org/alias"));
  EXPECT_EQ(engine->last().adapter, "");
  const Answer unknown = chat(R"("model": "other")");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.json.at("error").at("code"), Json("model_not_found"));
  EXPECT_EQ(post("/v1/unload_lora_adapter", R"({"lora_name": "mine"})").status, 200);
  EXPECT_EQ(post("/v1/unload_lora_adapter", R"({"lora_name": "mine"})").status, 404);
  EXPECT_EQ(chat(R"("model": "mine")").status, 404);
}

TEST_F(ServiceTest, TokenizesAndBack) {
  const Json plain = post("/tokenize", R"({"prompt": "a b", "return_token_strs": true})").json;
  EXPECT_EQ(plain, Json::parse(R"({"count": 3, "max_model_len": 64, "tokens": [1, 5, 6],
                                   "token_strs": ["<s>", "a", "b"]})"));
  const Json without = post("/tokenize", R"({"prompt": "a b", "add_special_tokens": false})").json;
  EXPECT_EQ(without.at("tokens"), Json::parse("[5, 6]"));
  EXPECT_TRUE(without.at("token_strs").is_null());
  const Json chat = post("/tokenize", R"({"messages": [{"role": "user", "content": "a b"}]})").json;
  EXPECT_EQ(chat.at("tokens"), Json::parse("[3, 5, 6, 30]"));
  EXPECT_EQ(post("/tokenize", "{}").status, 400);
  EXPECT_EQ(post("/detokenize", R"({"tokens": [1, 5, 6]})").json.at("prompt"), Json("<s> a b"));
  EXPECT_EQ(post("/detokenize", R"({"tokens": [99]})").error_param(), "tokens");
  EXPECT_EQ(post("/detokenize", R"({"tokens": [5], "x": 1})").error_param(), "x");
}

TEST_F(ServiceTest, TellsItsState) {
  options.version = "1.2";
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/version").json, Json::parse(R"({"version": "1.2"})"));
  engine->numbers.healthy = false;
  EXPECT_EQ(get("/health").status, 503);
  options.enable_page = false;
  restart();
  EXPECT_EQ(get("/").status, 404);
}

TEST_F(ServiceTest, CountsRequestsUnderBothNames) {
  engine->numbers = {.running = 3, .pages = 10, .free_pages = 4, .prompt_tokens = 12};
  engine->script = {piece("c", {7}), piece("d", {8}), piece("", {2}, Finish::Stop)};
  chat();
  chat(R"("x": 1)");
  const std::string text = get("/metrics").raw.body;
  for (const std::string prefix : {"vllm:", "easydel:"}) {
    const auto line = [&](const std::string& name, const std::string& labels, const std::string& value) {
      return "\n" + prefix + name + "{engine=\"0\",model_name=\"model\"" + labels + "} " + value + "\n";
    };
    EXPECT_THAT(text, HasSubstr(line("num_requests_running", "", "3.0")));
    EXPECT_THAT(text, HasSubstr(line("kv_cache_usage_perc", "", "0.6")));
    EXPECT_THAT(text, HasSubstr(line("prompt_tokens_total", "", "12.0")));
    EXPECT_THAT(text, HasSubstr(line("request_success_total", ",finished_reason=\"stop\"", "1")));
    EXPECT_THAT(text, HasSubstr(line("http_errors_total", ",status=\"400\"", "1")));
    EXPECT_THAT(text, HasSubstr(line("time_to_first_token_seconds_count", "", "1")));
    EXPECT_THAT(text, HasSubstr(line("inter_token_latency_seconds_count", "", "2")));
    EXPECT_THAT(text, HasSubstr(line("e2e_request_latency_seconds_bucket", ",le=\"+Inf\"", "1")));
    EXPECT_THAT(text, HasSubstr(line("request_generation_tokens_bucket", ",le=\"2.0\"", "0")));
    EXPECT_THAT(text, HasSubstr(line("request_generation_tokens_bucket", ",le=\"5.0\"", "1")));
    EXPECT_THAT(text, HasSubstr(line("request_generation_tokens_sum", "", "3.0")));
  }
  const Json data = get("/dashboard/data").json;
  EXPECT_EQ(data.at("running"), Json(3));
  EXPECT_DOUBLE_EQ(data.at("cache").at("usage").as_double(), 0.6);
  EXPECT_TRUE(data.at("latency_ms").at("ttft").at("p50").is_number());
  EXPECT_TRUE(data.at("throughput").contains("generation_tokens_per_s"));
}

TEST_F(ServiceTest, RefusesOptionsThatAreNotPossible) {
  options.tool_parser = "nonsense";
  EXPECT_THROW(service(), ConfigError);
  options.tool_parser = "auto";
  options.served_model_names.clear();
  EXPECT_THROW(service(), ConfigError);
  options.served_model_names = {"m"};
  options.chat_template = "{% if %}";
  EXPECT_THROW(service(), Error);
}

}  // namespace
}  // namespace easydel::serve::testing_support
