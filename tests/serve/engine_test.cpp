// The engine gives each request what generate gives it alone: with others beside it, in chunks, with prefixes found
// again, after preemptions, with guesses, and on a mesh. Random models of all families, in float64.
// EASYDEL_DRAWS and EASYDEL_SEED as in one_answer_test.cpp.
#include "easydel/serve/engine/engine.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <future>
#include <set>
#include <thread>

#include "easydel/generation/generate.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/operations/rope.h"
#include "easydel/quantization/quantize.h"
#include "easydel/serve/engine/between_steps.h"
#include "easydel/serve/engine/drafter.h"
#include "easydel/serve/engine/forget_prefixes.h"
#include "easydel/serve/grammar/grammar.h"
#include "easydel/sharding/world/world.h"
#include "tests/support/one_answer.h"
#include "tests/support/word_tokenizer.h"

namespace easydel::serve {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::Draw;
using testing_support::Problem;

uint64_t number_from_environment(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

Problem draw_served(uint64_t seed, int64_t devices) {
  for (uint64_t n = 0;; ++n) {
    Problem p = testing_support::draw_problem(seed + 1000003 * n, devices);
    if (p.task == TaskType::CausalLM && !operations::rope_depends_on_length(p.config->rope) &&
        !testing_support::has_states(*p.config))
      return p;
  }
}

std::vector<int32_t> generated(const BaseModule& model, const Request& request) {
  const SamplingParams& s = request.sampling;
  GenerateOptions options;
  options.generation_config.max_new_tokens = *s.max_tokens;
  options.generation_config.do_sample = !s.is_greedy();
  options.generation_config.repetition_penalty = s.repetition_penalty;
  options.generation_config.eos_token_id =
      TokenIds(int64_t{1} << 30);  // no token: the model's own would count otherwise
  if (!s.is_greedy()) {
    options.generation_config.temperature = s.temperature;
    options.generation_config.top_k = s.top_k;
    options.generation_config.top_p = s.top_p;
  }
  options.prng_key = RandomKey(s.seed.value_or(0));
  const at::Tensor ids = at::tensor(request.prompt, at::kInt).to(testing_support::device(), at::kLong).unsqueeze(0);
  options.inputs.attention_mask = at::ones_like(ids);  // a token that is the model's padding counts as any other
  const at::Tensor out = generate(model, ids, options).sequences.to(at::kCPU, at::kInt).contiguous();
  const auto* first = out.const_data_ptr<int32_t>();
  return {first + request.prompt.size(), first + out.numel()};
}

std::vector<Request> draw_requests(Draw& draw, int64_t count, int64_t vocab, int64_t context) {
  std::vector<int32_t> shared;
  for (int64_t i = 0; i < 6; ++i) shared.push_back(static_cast<int32_t>(draw.between(0, vocab - 1)));
  std::vector<Request> requests;
  for (int64_t i = 0; i < count; ++i) {
    Request request;
    if (draw.chance(0.5)) request.prompt = shared;
    const int64_t own = draw.between(1, 6);
    for (int64_t t = 0; t < own; ++t) request.prompt.push_back(static_cast<int32_t>(draw.between(0, vocab - 1)));
    const auto length = static_cast<int64_t>(request.prompt.size());
    request.sampling.max_tokens = std::min(draw.between(1, 10), context - length);
    request.sampling.ignore_eos = true;
    request.sampling.temperature = 0;
    if (draw.chance(0.2)) request.sampling.repetition_penalty = 1.5;
    if (draw.chance(0.3)) {
      request.sampling.temperature = 0.8;
      request.sampling.top_k = draw.one_of({0, 5});
      request.sampling.top_p = draw.one_of({1.0, 0.7});
      request.sampling.seed = static_cast<uint64_t>(draw.between(0, 1000));
    }
    request.priority = draw.between(0, 1);
    requests.push_back(request);
  }
  return requests;
}

EngineOptions draw_options(Draw& draw, int64_t context) {
  EngineOptions options;
  options.max_model_len = context;
  options.page_size = draw.between(1, 5);
  const int64_t least = (context + options.page_size - 1) / options.page_size;
  options.num_pages = draw.between(least, 3 * least);  // few: some are preempted
  options.max_num_seqs = draw.between(1, 8);
  options.max_num_batched_tokens = draw.between(3, 24);
  options.enable_prefix_caching = draw.chance(0.7);
  options.enable_chunked_prefill = draw.chance(0.8);
  options.num_speculative_tokens = draw.chance(0.4) ? draw.between(1, 4) : 0;
  return options;
}

void check_problem(uint64_t seed, int64_t devices) {
  const Problem p = draw_served(seed, devices);
  SCOPED_TRACE(concat(p.to_string(), "\nEASYDEL_SEED=", seed, " repeats it."));
  Draw draw(seed + 5);
  const int64_t context = 24;
  const std::vector<Request> requests = draw_requests(draw, 12, p.config->vocab_size, context);
  EngineOptions options = draw_options(draw, context);
  if (p.mesh.size() == 1 && options.num_speculative_tokens == 0) options.async_scheduling = draw.chance(0.7);
  std::vector<std::vector<int32_t>> expected;
  const auto alone = testing_support::make_model(p);
  for (const Request& request : requests) expected.push_back(generated(*alone, request));
  run_ranks(p.mesh.size(), [&](World& world) {
    auto model = testing_support::make_model(p);
    if (p.mesh.size() > 1) model->shard_model(p.rules, p.mesh);
    const auto engine = make_engine(model, nullptr, options);
    if (world.rank() > 0) {
      engine->drain(std::chrono::minutes(5));
      return;
    }
    const std::vector<RequestOutput> outputs = complete_all(*engine, requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(outputs[i].error, "");
      EXPECT_EQ(outputs[i].tokens, expected[i]) << "request " << i << " of " << requests[i].prompt.size() << " tokens\n"
                                                << p.to_string() << "\nEASYDEL_SEED=" << seed;
      EXPECT_EQ(outputs[i].finish, Finish::Length);
    }
    EXPECT_EQ(engine->stats().free_pages, options.num_pages);
  });
}

TEST(Engine, GivesWhatGenerateGivesForAnyModel) {
  const uint64_t draws = number_from_environment("EASYDEL_DRAWS", 40);
  const uint64_t first = number_from_environment("EASYDEL_SEED", 1);
  for (uint64_t seed = first; seed < first + draws && !HasFailure(); ++seed) check_problem(seed, 1);
}

TEST(Engine, GivesWhatGenerateGivesOnAnyMesh) {
  const uint64_t draws = number_from_environment("EASYDEL_DRAWS", 12);
  const uint64_t first = number_from_environment("EASYDEL_SEED", 100);
  for (uint64_t seed = first; seed < first + draws && !HasFailure(); ++seed) check_problem(seed, 0);
}

std::shared_ptr<BaseModule> tiny_llama(DType dtype = float32, uint64_t seed = 3) {
  const auto config = AutoConfig::from_dict(Json::parse(R"({"model_type": "llama", "vocab_size": 31, "hidden_size": 32,
      "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "max_position_embeddings": 256, "eos_token_id": 2, "initializer_range": 0.4})"));
  std::shared_ptr<BaseModule> model = Registry::instance().make_module(*config, TaskType::CausalLM);
  model->initialize({.dtype = dtype, .param_dtype = dtype, .rngs = RandomKey(seed)});
  return model;
}

Request request_of(std::vector<int32_t> prompt, int64_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

std::vector<int32_t> some_tokens(int64_t count, uint64_t seed) {
  Draw draw(seed);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(draw.between(5, 30)));
  return tokens;
}

TEST(Engine, AFloat32RequestAmong64Others) {
  const auto model = tiny_llama();
  EngineOptions options;
  options.num_pages = 64;  // far too few for all
  options.max_num_batched_tokens = 64;
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 65; ++i) {
    requests.push_back(request_of(some_tokens(10 + static_cast<int64_t>(i % 7), i), 40));
    requests.back().sampling.ignore_eos = true;
    if (i % 2 == 1) requests.back().sampling.temperature = 0.9, requests.back().sampling.seed = i;
  }
  const auto engine = make_engine(model, nullptr, options);
  const auto outputs = complete_all(*engine, requests);
  for (std::size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(outputs[i].tokens, generated(*model, requests[i])) << "request " << i;
  EXPECT_GT(engine->stats().preemptions, 0);
}

TEST(Engine, RequestsThatAreSubmittedBetweenStepsBeginTogether) {
  const auto engine = make_engine(tiny_llama(), nullptr, {.max_num_batched_tokens = 64, .num_pages = 64});
  constexpr int kRequests = 5;
  int missing = kRequests;  // counted on the engine's thread
  std::promise<void> ended;
  between_steps(*engine, [&] {
    for (uint64_t i = 0; i < kRequests; ++i) {
      engine->submit(request_of(some_tokens(6, i), 1), [&](const RequestOutput& out) {
        if (out.finish && --missing == 0) ended.set_value();
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  ended.get_future().wait();
  EXPECT_EQ(engine->stats().steps, 1);
}

TEST(Engine, ADraftModelOnlyChangesTheNumberOfSteps) {
  const auto model = tiny_llama();
  EngineOptions options;
  options.num_pages = 200;
  Request request = request_of(some_tokens(9, 1), 60);
  request.sampling.ignore_eos = true;
  Request sampled = request;
  sampled.sampling.temperature = 1.0;
  sampled.sampling.seed = 4;
  const auto plain = make_engine(model, nullptr, options);
  options.num_speculative_tokens = 3;
  options.speculative_method = "draft";
  options.draft_model = tiny_llama();  // the same weights: every guess is right
  const auto guessing = make_engine(model, nullptr, options);
  for (const Request& each : {request, sampled})
    EXPECT_EQ(complete(*guessing, each).tokens, complete(*plain, each).tokens);
  EXPECT_EQ(guessing->stats().accepted_tokens, guessing->stats().draft_tokens);
  EXPECT_GT(guessing->stats().accepted_tokens, 60);
  options.draft_model = tiny_llama(float32, 8);  // other weights: most guesses are wrong
  const auto wrong = make_engine(model, nullptr, options);
  for (const Request& each : {request, sampled})
    EXPECT_EQ(complete(*wrong, each).tokens, complete(*plain, each).tokens);
  EXPECT_LT(wrong->stats().accepted_tokens, wrong->stats().draft_tokens);
}

TEST(Engine, ADraftModelReadsALongPromptInPieces) {
  const auto model = tiny_llama();
  const EngineOptions options{.max_num_batched_tokens = 16,
                              .num_speculative_tokens = 3,
                              .speculative_method = "draft",
                              .draft_model = tiny_llama()};
  const auto drafter = make_drafter(options, *model, 16, 10, 256);
  Sequence sequence;
  sequence.tokens = some_tokens(40, 1);
  sequence.prompt_tokens = 40;
  sequence.pages = {4, 7, 2};
  ActiveRequest request;
  request.id = 1;
  request.sequence = &sequence;
  request.request = request_of(sequence.tokens, 3);
  for (const std::size_t drafts : {0U, 0U, 3U}) {  // 16 and 16 tokens, then the rest
    drafter->propose({&request}, {3});
    EXPECT_EQ(sequence.drafts.size(), drafts);
  }
  EXPECT_EQ(sequence.drafts, generated(*model, request.request));
}

// Whole beside the model's parts, and in parts itself.
TEST(Engine, ADraftModelOnAMesh) {
  Request request = request_of(some_tokens(9, 1), 40);
  request.sampling.ignore_eos = true;
  const std::vector<int32_t> expected = generated(*tiny_llama(), request);
  for (const bool whole : {true, false}) {
    run_ranks(2, [&](World& world) {
      const Mesh mesh = create_mesh({.axis_dims = {1, 1, 1, 2, 1}, .device_count = 2});
      EngineOptions options{.num_pages = 200, .num_speculative_tokens = 3, .speculative_method = "draft"};
      const auto model = tiny_llama();
      options.draft_model = tiny_llama();
      model->shard_model({}, mesh);
      if (!whole) options.draft_model->shard_model({}, mesh);
      const auto engine = make_engine(model, nullptr, options);
      if (world.rank() > 0) {
        engine->drain(std::chrono::minutes(5));
        return;
      }
      EXPECT_EQ(complete(*engine, request).tokens, expected) << (whole ? "whole" : "in parts");
      EXPECT_GT(engine->stats().accepted_tokens, 20);
    });
  }
}

// Requests that end where nobody could know it, that must be chosen one by one, and that are cancelled.
TEST(Engine, StepsThatAreStartedAheadChangeNoAnswer) {
  const auto model = tiny_llama();
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 20; ++i) {
    requests.push_back(request_of(some_tokens(3 + static_cast<int64_t>(i % 7), i), 20));
    SamplingParams& sampling = requests.back().sampling;
    sampling.ignore_eos = i % 5 == 0;
    if (i % 4 == 1) sampling.temperature = 0.9, sampling.seed = i;
    if (i % 6 == 0) sampling.logprobs = 2;
    if (i % 9 == 0) sampling.prompt_logprobs = 1;
  }
  requests[7].kind = RequestKind::Embed;
  EngineOptions options{.max_num_seqs = 6, .max_num_batched_tokens = 16, .num_pages = 12};
  const auto alone = make_engine(model, nullptr, options);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::vector<int32_t> tokens = complete(*alone, requests[i]).tokens;
    if (!tokens.empty()) requests[i].sampling.stop_token_ids = {tokens[i % tokens.size()]};
  }
  options.async_scheduling = true;
  const auto ahead = make_engine(model, nullptr, options);
  const std::vector<RequestOutput> expected = complete_all(*alone, requests), got = complete_all(*ahead, requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(concat("request ", i));
    EXPECT_EQ(got[i].error, "");
    EXPECT_EQ(got[i].tokens, expected[i].tokens);
    EXPECT_EQ(got[i].finish, expected[i].finish);
    EXPECT_EQ(got[i].logprobs.size(), expected[i].logprobs.size());
    EXPECT_EQ(got[i].prompt_logprobs.size(), expected[i].prompt_logprobs.size());
    EXPECT_EQ(got[i].embedding.size(), expected[i].embedding.size());
  }
  std::promise<void> cancelled;
  bool is_first = true;
  RequestId id = 0;
  between_steps(*ahead, [&] {
    id = ahead->submit(request_of(some_tokens(5, 1), 200), [&](const RequestOutput& out) {
      if (std::exchange(is_first, false)) ahead->cancel(id);
      if (out.finish) cancelled.set_value();
    });
  });
  cancelled.get_future().wait();
  forget_prefixes(*ahead);
  EXPECT_EQ(complete(*ahead, requests[2]).tokens, expected[2].tokens);
  EXPECT_EQ(ahead->stats().free_pages, 12);
}

TEST(Engine, PackedWeightsAndAnInt8Cache) {
  for (const char* method : {"8bit", "nf4"}) {
    const auto model = tiny_llama();
    model->quantize({.method = method, .group_size = method == std::string("nf4") ? 32 : 0});
    const auto engine = make_engine(model, nullptr, {.num_pages = 100});
    std::vector<Request> requests;
    for (uint64_t i = 0; i < 4; ++i) requests.push_back(request_of(some_tokens(8, i), 20));
    const auto outputs = complete_all(*engine, requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      std::vector<int32_t> expected = generated(*model, requests[i]);
      const auto end = std::find(expected.begin(), expected.end(), 2);
      if (end != expected.end()) expected.erase(end + 1, expected.end());
      EXPECT_EQ(outputs[i].tokens, expected) << method << ", request " << i;
    }
  }
  for (const char* dtype : {"int8", "bfloat16", "fp8"}) {
    const auto engine = make_engine(tiny_llama(), nullptr, {.num_pages = 100, .kv_cache_dtype = dtype});
    EXPECT_EQ(complete(*engine, request_of(some_tokens(8, 1), 20)).error, "") << dtype;
  }
}

TEST(Engine, ARepeatedPromptIsFoundAgain) {
  const auto engine = make_engine(tiny_llama(), nullptr, {.num_pages = 100});
  const Request request = request_of(some_tokens(100, 1), 5);
  const RequestOutput first = complete(*engine, request), second = complete(*engine, request);
  EXPECT_EQ(first.tokens, second.tokens);
  EXPECT_EQ(first.cached_tokens, 0);
  EXPECT_EQ(second.cached_tokens, 96);
  EXPECT_EQ(engine->stats().prefix_hits, 96);
}

TEST(Engine, LogprobsAreThoseOfTheModel) {
  const auto model = tiny_llama();
  const auto engine = make_engine(model, nullptr, {.max_num_batched_tokens = 5, .num_pages = 100});
  Request request = request_of(some_tokens(12, 1), 6);
  request.sampling.ignore_eos = true;
  request.sampling.logprobs = 3;
  request.sampling.prompt_logprobs = 2;
  const RequestOutput out = complete(*engine, request);
  std::vector<int32_t> all = request.prompt;
  all.insert(all.end(), out.tokens.begin(), out.tokens.end());
  const at::NoGradGuard no_grad;
  const at::Tensor ids = at::tensor(all, at::kInt).to(at::kLong).unsqueeze(0);
  const at::Tensor expected = (*model)({.input_ids = ids}).logits[0].log_softmax(-1);
  ASSERT_EQ(out.logprobs.size(), 6U);
  ASSERT_EQ(out.prompt_logprobs.size(), 11U);
  for (int64_t i = 0; i + 1 < static_cast<int64_t>(all.size()); ++i) {
    const bool in_prompt = i < 11;
    const TokenLogprobs& got =
        in_prompt ? out.prompt_logprobs[static_cast<std::size_t>(i)] : out.logprobs[static_cast<std::size_t>(i - 11)];
    const int32_t token = all[static_cast<std::size_t>(i + 1)];
    EXPECT_EQ(got.chosen.token, token);
    EXPECT_NEAR(got.chosen.logprob, expected[i][token].item<float>(), 1e-4);
    ASSERT_EQ(got.top.size(), in_prompt ? 2U : 3U);
    EXPECT_EQ(got.top[0].token, expected[i].argmax().item<int64_t>());
    EXPECT_EQ(got.rank == 1, got.top[0].token == token);
  }
}

TEST(Engine, TextEndsBeforeAStopString) {
  const auto model = tiny_llama();
  const std::shared_ptr<const Tokenizer> tokenizer = testing_support::word_tokenizer().shared();
  const auto engine = make_engine(model, tokenizer, {.num_pages = 100});
  Request request = request_of(some_tokens(8, 2), 30);
  request.sampling.ignore_eos = true;
  const RequestOutput whole = complete(*engine, request);
  EXPECT_EQ(whole.text, tokenizer->decode(whole.tokens));
  ASSERT_GT(whole.text.size(), 8U);
  const std::string stop = whole.text.substr(4, 3);
  request.sampling.stop = {stop, "never"};
  const RequestOutput stopped = complete(*engine, request);
  EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find(stop)));
  EXPECT_EQ(std::get<std::string>(stopped.stop_reason), stop);
  EXPECT_EQ(stopped.finish, Finish::Stop);
  request.sampling.include_stop_str_in_output = true;
  EXPECT_EQ(complete(*engine, request).text, whole.text.substr(0, whole.text.find(stop) + stop.size()));
  request.sampling.stop = {};
  request.sampling.stop_token_ids = {whole.tokens[3]};
  request.sampling.include_stop_str_in_output = false;
  const RequestOutput by_token = complete(*engine, request);
  EXPECT_LE(by_token.tokens.size(), 4U);
  EXPECT_EQ(std::get<int32_t>(by_token.stop_reason), whole.tokens[3]);
}

TEST(Engine, SettingsRuleTokensOutAndIn) {
  const auto engine = make_engine(tiny_llama(), nullptr, {.num_pages = 100});
  Request request = request_of(some_tokens(8, 2), 12);
  request.sampling.logit_bias = {{7, 100.0}};
  EXPECT_THAT(complete(*engine, request).tokens, testing::Each(7));
  request.sampling.frequency_penalty = 2.0;
  request.sampling.presence_penalty = 2.0;
  request.sampling.logit_bias = {{7, 5.0}};
  const auto penalized = complete(*engine, request).tokens;
  EXPECT_LT(std::count(penalized.begin(), penalized.end(), 7), 4);
  request = request_of(some_tokens(8, 2), 12);
  request.sampling.logit_bias = {{2, 100.0}};  // the end token
  EXPECT_EQ(complete(*engine, request).tokens.size(), 1U);
  request.sampling.min_tokens = 5;
  EXPECT_EQ(complete(*engine, request).tokens.size(), 6U);
  request.sampling.min_tokens = 0;
  request.sampling.ignore_eos = true;
  EXPECT_EQ(complete(*engine, request).tokens.size(), 12U);
  request = request_of(some_tokens(8, 2), 40);
  request.sampling.ignore_eos = true;
  const auto repeated = complete(*engine, request).tokens;
  request.sampling.repetition_penalty = 1e9;
  const auto distinct = complete(*engine, request).tokens;
  EXPECT_GT(std::set(distinct.begin(), distinct.end()).size(), std::set(repeated.begin(), repeated.end()).size());
}

TEST(Engine, EveryFilterKeepsTheBestToken) {
  const auto engine = make_engine(tiny_llama(), nullptr, {.num_pages = 100});
  const Request greedy = request_of(some_tokens(8, 2), 12);
  const auto expected = complete(*engine, greedy).tokens;
  for (int which = 0; which < 5; ++which) {
    Request request = greedy;
    request.sampling.temperature = which == 4 ? 1e-310 : which == 3 ? 1e-4 : 1.0;  // 1 / 1e-310 is infinite
    if (which == 0) request.sampling.top_k = 1;
    if (which == 1) request.sampling.top_p = 1e-6;
    if (which == 2) request.sampling.min_p = 1.0;
    EXPECT_EQ(complete(*engine, request).tokens, expected) << which;
  }
  Request typical = greedy;
  typical.sampling.temperature = 1.0;
  typical.sampling.typical_p = 1e-6;
  typical.sampling.seed = 1;
  Request other = typical;
  other.sampling.seed = 2;  // one candidate is left: the seed does not matter
  EXPECT_EQ(complete(*engine, typical).tokens, complete(*engine, other).tokens);
}

TEST(Engine, ACancelledRequestFreesItsPages) {
  const auto engine = make_engine(tiny_llama(), nullptr, {.num_pages = 100});
  Request request = request_of(some_tokens(8, 2), 200);
  request.sampling.ignore_eos = true;
  std::promise<void> begun;
  std::promise<RequestOutput> ended;
  bool first = true;
  const RequestId id = engine->submit(request, [&](const RequestOutput& out) {
    if (std::exchange(first, false)) begun.set_value();
    if (out.finish) ended.set_value(out);
  });
  begun.get_future().wait();
  engine->cancel(id);
  engine->cancel(id);
  engine->cancel(12345);
  EXPECT_EQ(ended.get_future().get().finish, Finish::Cancelled);
  EXPECT_TRUE(engine->drain(std::chrono::minutes(1)));
  EXPECT_EQ(engine->stats().free_pages, 100);
  EXPECT_EQ(engine->stats().finished_cancelled, 1);
  EXPECT_THAT([&] { engine->submit(request, [](const RequestOutput&) {}); },
              ThrowsMessage<Error>(HasSubstr("shutting down")));
}

// A compiler that takes its time.
class SlowCompiler : public GrammarCompiler {
 public:
  explicit SlowCompiler(std::shared_future<void> goes_on) : goes_on_(std::move(goes_on)) {}
  std::shared_ptr<const CompiledGrammar> compile(const GrammarSpec&) override {
    begun.set_value();
    goes_on_.wait();
    return std::make_shared<const Anything>();
  }
  std::promise<void> begun;  // once: the engine ends while it compiles

 private:
  class Anything : public CompiledGrammar {
   public:
    std::unique_ptr<GrammarMatcher> matcher() const override { return nullptr; }
  };
  std::shared_future<void> goes_on_;
};

TEST(Engine, RequestsWhoseGrammarIsNotCompiledYetEndWithTheEngine) {
  std::promise<void> goes_on;
  const auto compiler = std::make_shared<SlowCompiler>(goes_on.get_future().share());
  auto engine = make_engine(tiny_llama(), nullptr, {.num_pages = 100, .grammar = compiler});
  std::vector<std::string> errors;
  Request request = request_of(some_tokens(8, 2), 4);
  request.sampling.grammar = GrammarSpec();
  for (int i = 0; i < 3; ++i) {
    engine->submit(request, [&](const RequestOutput& out) {
      EXPECT_EQ(out.finish, Finish::Error);
      errors.push_back(out.error);
    });
  }
  compiler->begun.get_future().wait();
  std::thread ends([&] { engine.reset(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the engine's own thread is gone by now, or soon
  goes_on.set_value();
  ends.join();
  EXPECT_THAT(errors,
              testing::ElementsAre("the engine was shut down", "the engine was shut down", "the engine was shut down"));
}

TEST(Engine, AnEndTokenOutsideOfTheVocabularyIsNone) {
  const auto model = tiny_llama();
  GenerationConfig config;
  config.eos_token_id = TokenIds({2, 31, 1000000});
  model->set_generation_config(config);
  const auto engine = make_engine(model, nullptr, {.num_pages = 100});
  EXPECT_THAT(engine->info().eos_token_ids, testing::ElementsAre(2));
}

TEST(Engine, EmbedsAndClassifies) {
  const auto model = tiny_llama();
  const auto engine = make_engine(model, nullptr, {.max_num_batched_tokens = 3, .num_pages = 100});
  Request request;
  request.prompt = some_tokens(10, 3);
  request.kind = RequestKind::Embed;
  const RequestOutput out = complete(*engine, request);
  const at::NoGradGuard no_grad;
  const at::Tensor ids = at::tensor(request.prompt, at::kInt).to(at::kLong).unsqueeze(0);
  const at::Tensor expected = (*model)({.input_ids = ids}).last_hidden_state[0][9];
  EXPECT_TRUE(at::allclose(at::tensor(out.embedding), expected, 1e-4, 1e-5));
  request.kind = RequestKind::Classify;
  EXPECT_THAT([&] { complete(*engine, request); }, ThrowsMessage<ConfigError>(HasSubstr("no classification head")));
}

TEST(Engine, RefusesWhatCannotRun) {
  const auto engine = make_engine(tiny_llama(), nullptr, {.max_model_len = 32, .num_pages = 100});
  const auto refusal = [&](const std::function<void(Request&)>& change, const char* words) {
    Request request = request_of(some_tokens(8, 2), 4);
    change(request);
    EXPECT_THAT([&] { engine->submit(request, [](const RequestOutput&) {}); }, ThrowsMessage<Error>(HasSubstr(words)));
  };
  refusal([](Request& r) { r.prompt.clear(); }, "no tokens");
  refusal([](Request& r) { r.prompt[3] = 31; }, "is 31; the vocabulary has 31");
  refusal([](Request& r) { r.prompt.resize(32, 6); }, "max_model_len, for prompt and answer together, is 32");
  refusal([](Request& r) { r.sampling.temperature = -1; }, "temperature must be 0 or more; got -1");
  refusal([](Request& r) { r.sampling.top_p = 0; }, "top_p must be in (0, 1]");
  refusal([](Request& r) { r.sampling.stop = {"x"}; }, "stop strings need a tokenizer");
  refusal([](Request& r) { r.sampling.grammar = GrammarSpec(); }, "no grammar compiler");
  refusal([](Request& r) { r.adapter = "none"; }, "adapter");
  EXPECT_THAT([] { make_engine(tiny_llama(), nullptr, {.max_num_seqs = 0}); },
              ThrowsMessage<ConfigError>(HasSubstr("max_num_seqs")));
  EXPECT_THAT([] { make_engine(tiny_llama(), nullptr, {.kv_cache_dtype = "int3"}); }, testing::Throws<Error>());
}

}  // namespace
}  // namespace easydel::serve
