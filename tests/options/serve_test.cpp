// What the options of the engine and of the server do, with a model of thirty-one tokens. Those of the HTTP server and
// of the service are probed without a model: serve_http_test.cpp, serve_service_test.cpp.
#include <ATen/Context.h>
#include <gmock/gmock.h>

#include <future>

#include "easydel/serve/grammar/grammar.h"
#include "easydel/serve/server.h"
#include "tests/infra/tiny_llama.h"
#include "tests/serve/http_client.h"
#include "tests/support/probe.h"
#include "tests/support/word_tokenizer.h"

namespace easydel::serve_probes {
namespace {

using serve::complete;
using serve::Engine;
using serve::EngineOptions;
using serve::Request;
using serve::RequestOutput;
using serve::Server;
using serve::ServerOptions;
using serve::testing_http::Client;
using testing_support::is_refused;

std::shared_ptr<LlamaForCausalLM> served_model(uint64_t seed = 0, int64_t positions = 256) {
  LlamaConfig config = tiny_config();
  config.vocab_size = testing_support::kWordTokens;
  config.max_position_embeddings = positions;
  return make_model<LlamaForCausalLM>(config, {.rngs = RandomKey(seed)});
}

// Pages enough for any probe, unless it says how many.
std::shared_ptr<Engine> engine_with(EngineOptions options, int64_t num_pages = 100) {
  if (options.num_pages == 0) options.num_pages = num_pages;
  return serve::make_engine(served_model(), nullptr, options);
}

Request question(int64_t length, int64_t max_tokens) {
  Request request;
  for (int64_t i = 0; i < length; ++i) request.prompt.push_back(static_cast<int32_t>(5 + i * 7 % 26));
  request.sampling.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  return request;
}

PROBE(EngineOptions, max_num_seqs) {
  EXPECT_EQ(engine_with({.max_num_seqs = 3})->info().max_num_seqs, 3);
  EXPECT_TRUE(is_refused("max_num_seqs", [] { engine_with({.max_num_seqs = 0}); }));
}
PROBE(EngineOptions, max_num_batched_tokens) {
  const auto steps = [](int64_t budget) {
    const auto engine = engine_with({.max_num_batched_tokens = budget});
    complete(*engine, question(40, 1));
    return engine->stats().steps;
  };
  EXPECT_EQ(steps(8), steps(64) + 4);
}
PROBE(EngineOptions, max_model_len) {
  const auto engine = engine_with({.max_model_len = 16});
  EXPECT_EQ(complete(*engine, question(10, 100)).tokens.size(), 6U);
  EXPECT_TRUE(is_refused("max_model_len", [&] { complete(*engine, question(16, 1)); }));
}
PROBE(EngineOptions, page_size) {
  const auto cached = [](int64_t size) {
    const auto engine = engine_with({.page_size = size});
    complete(*engine, question(15, 1));
    return complete(*engine, question(15, 1)).cached_tokens;
  };
  EXPECT_EQ(cached(16), 0);
  EXPECT_EQ(cached(4), 12);
}
PROBE(EngineOptions, num_pages) { EXPECT_EQ(engine_with({.num_pages = 40})->stats().pages, 40); }
PROBE(EngineOptions, gpu_memory_utilization) {
  EXPECT_TRUE(is_refused("share of the free memory", [] { engine_with({.gpu_memory_utilization = 1.5}); }));
  EXPECT_TRUE(is_refused("that are free is less", [] { engine_with({.gpu_memory_utilization = 1e-15}); }));
}
PROBE(EngineOptions, kv_cache_dtype) {
  EXPECT_TRUE(is_refused("kv_cache_dtype", [] { engine_with({.kv_cache_dtype = "int32"}); }));
  EXPECT_EQ(complete(*engine_with({.kv_cache_dtype = "int8"}), question(8, 4)).error, "");
}
PROBE(EngineOptions, enable_prefix_caching) {
  const auto cached = [](bool enabled) {
    const auto engine = engine_with({.enable_prefix_caching = enabled});
    complete(*engine, question(40, 1));
    return complete(*engine, question(40, 1)).cached_tokens;
  };
  EXPECT_EQ(cached(true), 32);
  EXPECT_EQ(cached(false), 0);
}
// Beside a sequence that goes on, a prompt as long as a step never fits whole: it waits until that one has ended.
PROBE(EngineOptions, enable_chunked_prefill) {
  const auto ends_first = [](bool enabled) {
    const auto engine = engine_with({.max_num_batched_tokens = 16, .enable_chunked_prefill = enabled});
    std::promise<void> begun, long_ended, short_ended;
    std::atomic<int> order = 0, short_place = 0;
    bool is_first = true;
    engine->submit(question(4, 200), [&](const RequestOutput& out) {
      if (std::exchange(is_first, false)) begun.set_value();
      if (!out.finish) return;
      ++order;
      long_ended.set_value();
    });
    begun.get_future().wait();
    engine->submit(question(16, 1), [&](const RequestOutput& out) {
      if (!out.finish) return;
      short_place = ++order;
      short_ended.set_value();
    });
    long_ended.get_future().wait();
    short_ended.get_future().wait();
    return short_place == 1;
  };
  EXPECT_TRUE(ends_first(true));
  EXPECT_FALSE(ends_first(false));
}
PROBE(EngineOptions, max_waiting) {
  const auto engine = engine_with({.max_num_seqs = 1, .max_waiting = 2});
  EXPECT_THROW(
      {
        for (int i = 0; i < 20; ++i) engine->submit(question(8, 200), [](const RequestOutput&) {});
      },
      serve::QueueFullError);
}
PROBE(EngineOptions, num_speculative_tokens) {
  const auto drafts = [](int64_t count) {
    const auto engine = engine_with({.num_speculative_tokens = count});
    complete(*engine, question(60, 20));  // the prompt repeats itself after 26 tokens
    return engine->stats().draft_tokens;
  };
  EXPECT_EQ(drafts(0), 0);
  EXPECT_GT(drafts(3), 0);
}
PROBE(EngineOptions, speculative_method) {
  EXPECT_TRUE(is_refused("speculative_method",
                         [] { engine_with({.num_speculative_tokens = 2, .speculative_method = "hope"}); }));
}
PROBE(EngineOptions, draft_model) {
  const auto accepted = [](uint64_t seed) {
    const auto engine =
        engine_with({.num_speculative_tokens = 3, .speculative_method = "draft", .draft_model = served_model(seed)});
    complete(*engine, question(9, 60));
    return engine->stats().accepted_tokens;
  };
  EXPECT_GT(accepted(0), accepted(8));  // the same weights guess right
}
// The last tokens never occurred together before; the last one alone did.
PROBE(EngineOptions, ngram_min) {
  const auto drafts = [](int64_t least) {
    const auto engine = engine_with({.num_speculative_tokens = 2, .ngram_max = 3, .ngram_min = least});
    Request request = question(26, 1);
    request.prompt.push_back(request.prompt[3]);
    request.sampling.max_tokens = 3;
    request.sampling.logit_bias = {{7, 100.0}};  // always the same next token
    request.prompt.push_back(7);
    complete(*engine, request);
    return engine->stats().draft_tokens;
  };
  EXPECT_GT(drafts(1), drafts(3));
}
PROBE(EngineOptions, ngram_max) {
  EXPECT_TRUE(is_refused("ngram_max applies only to speculative decoding", [] { engine_with({.ngram_max = 3}); }));
  EXPECT_TRUE(is_refused("ngram_max applies only to n-gram speculation", [] {
    engine_with(
        {.num_speculative_tokens = 2, .speculative_method = "draft", .draft_model = served_model(0), .ngram_max = 3});
  }));
  EXPECT_TRUE(is_refused("ngram_max", [] { engine_with({.num_speculative_tokens = 2, .ngram_max = 0}); }));
}
// Only what a step costs changes: answers are the same. Without a GPU there are no graphs at all.
PROBE(EngineOptions, use_graphs) {
  if (!at::hasCUDA()) GTEST_SKIP() << "CUDA graphs need a GPU";
  EXPECT_EQ(complete(*engine_with({.use_graphs = true}), question(9, 20)).tokens,
            complete(*engine_with({.use_graphs = false}), question(9, 20)).tokens);
}
// A step begins before the last one is known to have ended the request: its result is thrown away.
PROBE(EngineOptions, async_scheduling) {
  const auto run = [](bool ahead) {
    const auto engine = engine_with({.async_scheduling = ahead});
    Request request = question(9, 20);
    request.sampling.stop_token_ids = {complete(*engine, request).tokens[4]};
    const int64_t before = engine->stats().steps;
    const std::vector<int32_t> tokens = complete(*engine, request).tokens;
    engine->drain(std::chrono::minutes(1));
    return std::pair(tokens, engine->stats().steps - before);
  };
  const auto [plain, steps] = run(false);
  const auto [ahead, more_steps] = run(true);
  EXPECT_EQ(ahead, plain);
  EXPECT_EQ(more_steps, steps + 1);
}
PROBE(EngineOptions, seed) {
  const auto drawn = [](uint64_t seed) {
    Request request = question(9, 30);
    request.sampling.temperature = 1;
    return complete(*engine_with({.seed = seed}), request).tokens;
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}

// A compiler whose grammars allow nothing but one token.
class OnlyToken : public serve::GrammarCompiler {
 public:
  static constexpr int32_t kToken = 9;
  std::shared_ptr<const serve::CompiledGrammar> compile(const serve::GrammarSpec&) override {
    return std::make_shared<const Compiled>();
  }

 private:
  class Matcher : public serve::GrammarMatcher {
   public:
    bool fill_mask(std::span<int32_t> words) override {
      std::fill(words.begin(), words.end(), 0);
      words[kToken / 32] = 1 << (kToken % 32);
      return true;
    }
    bool accept(int32_t token) override { return token == kToken; }
    void rollback(int64_t) override {}
    bool is_terminated() const override { return false; }
  };
  class Compiled : public serve::CompiledGrammar {
   public:
    std::unique_ptr<serve::GrammarMatcher> matcher() const override { return std::make_unique<Matcher>(); }
  };
};

PROBE(EngineOptions, grammar) {
  Request request = question(9, 5);
  request.sampling.grammar = serve::GrammarSpec();
  EXPECT_TRUE(is_refused("grammar compiler", [&] { complete(*engine_with({}), request); }));
  const auto engine = engine_with({.grammar = std::make_shared<OnlyToken>()});
  EXPECT_THAT(complete(*engine, request).tokens, testing::Each(OnlyToken::kToken));
}

ServerOptions small_server() {
  ServerOptions options;
  options.http.port = 0;
  options.engine.num_pages = 100;
  return options;
}

struct Running {
  explicit Running(const ServerOptions& options, int64_t positions = 256)
      : server(served_model(0, positions), testing_support::word_tokenizer(), options),
        port(static_cast<uint16_t>(std::stoi(server.address().substr(server.address().rfind(':') + 1)))) {}
  Json models() const {
    return Json::parse(Client(port).ask("GET /v1/models HTTP/1.1\r\nHost: t\r\n\r\n").body).at("data").at(0);
  }
  Server server;
  uint16_t port;
};

PROBE(ServerOptions, http) {
  const Running running(small_server());
  EXPECT_NE(running.port, 0);
  ServerOptions options = small_server();
  options.http.port = running.port;
  EXPECT_TRUE(is_refused("port", [&] { Running again(options); }));
}
PROBE(ServerOptions, service) {
  ServerOptions options = small_server();
  options.service.served_model_names = {"mine"};
  EXPECT_EQ(Running(options).models().at("id"), Json("mine"));
}
PROBE(ServerOptions, engine) {
  ServerOptions options = small_server();
  options.engine.max_model_len = 48;
  EXPECT_EQ(Running(options).models().at("max_model_len"), Json(48));
}
PROBE(ServerOptions, adapters) {
  ServerOptions options = small_server();
  options.adapters = {{"mine", "/no/such/directory"}};
  EXPECT_NE(testing_support::refusal([&] { Running again(options); }), "");
}
PROBE(ServerOptions, data_parallel_size) {
  ServerOptions options = small_server();
  options.data_parallel_size = 0;
  EXPECT_TRUE(is_refused("data_parallel_size", [&] { Running again(options); }));
  options.data_parallel_size = 2;
  const Running running(options);
  EXPECT_EQ(running.models().at("object"), Json("model"));
  // Each engine gets one of them, and both count from the start.
  const std::string body = R"({"prompt": "a b", "n": 2, "max_tokens": 20, "ignore_eos": true})";
  const Json answer =
      Json::parse(Client(running.port)
                      .ask("POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
                           "Content-Length: " +
                           std::to_string(body.size()) + "\r\n\r\n" + body)
                      .body);
  EXPECT_NE(answer.at("choices").at(0).at("text"), answer.at("choices").at(1).at("text"));
}
// Whether a stream that is under way is ended properly.
PROBE(ServerOptions, shutdown_timeout) {
  const auto is_finished = [](std::chrono::milliseconds timeout) {
    ServerOptions options = small_server();
    options.shutdown_timeout = timeout;
    options.engine.num_pages = 200;
    Running running(options, 4096);
    const std::string body =
        R"({"prompt": "a b", "max_tokens": 2500, "ignore_eos": true, "temperature": 0, "stream": true})";
    Client client(running.port);
    client.send("POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    client.read_until("data: ");
    running.server.stop();
    return client.read_all().find("[DONE]") != std::string::npos;
  };
  EXPECT_TRUE(is_finished(std::chrono::minutes(1)));
  EXPECT_FALSE(is_finished(std::chrono::milliseconds(0)));
}

}  // namespace
}  // namespace easydel::serve_probes
