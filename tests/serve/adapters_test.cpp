// Requests with adapters of their own get what generate gives on a model with that adapter alone: many in one batch, in
// chunks, after preemptions, on packed weights and on a mesh, while adapters come and go.
#include "easydel/serve/engine/adapters.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <future>

#include "easydel/core/files/file.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/layers/linear.h"
#include "easydel/lora/lora.h"
#include "easydel/lora/lora_layer.h"
#include "easydel/operations/rope.h"
#include "easydel/quantization/quantize.h"
#include "easydel/serve/engine/engine.h"
#include "easydel/serve/engine/replicas.h"
#include "easydel/serve/engine/runner.h"
#include "easydel/sharding/world/world.h"
#include "tests/support/one_answer.h"
#include "tests/support/temporary_directory.h"

namespace easydel::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::Draw;
using testing_support::Problem;

constexpr const char* kEveryMap = "(q|k|v|o|gate|up|down)_proj$";

std::shared_ptr<BaseModule> adaptable_llama(DType dtype = float64, int64_t hidden = 32) {
  Json settings = Json::parse(R"({"model_type": "llama", "vocab_size": 31, "intermediate_size": 64,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
      "eos_token_id": 2, "initializer_range": 0.4})");
  settings["hidden_size"] = hidden;
  const auto config = AutoConfig::from_dict(settings);
  std::shared_ptr<BaseModule> model = Registry::instance().make_module(*config, TaskType::CausalLM);
  model->initialize({.dtype = dtype, .param_dtype = dtype, .rngs = RandomKey(3), .device = testing_support::device()});
  return model;
}

// A model with one adapter, and the files of that.
struct Alone {
  Alone(std::shared_ptr<BaseModule> base, int64_t rank, const std::string& pattern, LoraOptions options = {})
      : model(std::move(base)) {
    options.init = LoraInit::Random;
    model->apply_lora_to_layers(rank, 4.0 * static_cast<double>(rank), pattern, options);
    save_adapter(*model, files.path());
  }
  std::string directory() const { return files.path().string(); }

  std::shared_ptr<BaseModule> model;
  TemporaryDirectory files;
};

std::vector<int32_t> answer_of(const BaseModule& model, const Request& request) {
  GenerateOptions options;
  options.generation_config.max_new_tokens = *request.sampling.max_tokens;
  options.generation_config.do_sample = false;
  options.generation_config.eos_token_id = TokenIds(int64_t{1} << 30);  // no token
  const at::Tensor ids = at::tensor(request.prompt, at::kInt).to(testing_support::device(), at::kLong).unsqueeze(0);
  options.inputs.attention_mask = at::ones_like(ids);
  const at::Tensor out = generate(model, ids, options).sequences.to(at::kCPU, at::kInt).contiguous();
  const auto* first = out.const_data_ptr<int32_t>();
  return {first + request.prompt.size(), first + out.numel()};
}

Request ask(const std::string& adapter, int64_t prompt, int64_t max_tokens, uint64_t seed, int64_t vocab = 31) {
  Draw draw(seed);
  Request request;
  for (int64_t i = 0; i < prompt; ++i) request.prompt.push_back(static_cast<int32_t>(draw.between(0, vocab - 1)));
  request.sampling.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.adapter = adapter;
  return request;
}

// Of different ranks, on different maps, with and without DoRA, and on the head.
struct FourAdapters {
  Alone a{adaptable_llama(), 4, kEveryMap, {.rngs = RandomKey(11)}};
  Alone b{adaptable_llama(), 2, "(q|v)_proj$", {.rslora = true, .rngs = RandomKey(12)}};
  Alone c{adaptable_llama(), 3, "(o|down)_proj$", {.dora = true, .rngs = RandomKey(13)}};
  Alone d{adaptable_llama(), 5, "lm_head|layers.1.*up_proj$", {.rngs = RandomKey(14)}};
  std::shared_ptr<BaseModule> plain = adaptable_llama();

  std::vector<std::pair<std::string, const Alone*>> all() const { return {{"a", &a}, {"b", &b}, {"c", &c}, {"d", &d}}; }
  void load(Engine& engine) const {
    for (const auto& [name, alone] : all()) engine.load_adapter(name, alone->directory());
  }
  const BaseModule& model(const std::string& name) const {
    for (const auto& [own, alone] : all()) {
      if (own == name) return *alone->model;
    }
    return *plain;
  }
};

TEST(Adapters, EachRequestOfABatchHasItsOwn) {
  const FourAdapters adapters;
  std::vector<Request> requests;
  std::vector<std::vector<int32_t>> expected;
  for (uint64_t i = 0; i < 20; ++i) {
    const char* names[] = {"", "a", "b", "c", "d"};
    requests.push_back(ask(names[i % 5], 3 + static_cast<int64_t>(i % 7), 20, i / 5));
    expected.push_back(answer_of(adapters.model(requests.back().adapter), requests.back()));
  }
  for (std::size_t i = 1; i < 5; ++i) EXPECT_NE(expected[i], answer_of(*adapters.plain, requests[i])) << i;
  const EngineOptions plenty{.num_pages = 200}, chunks{.max_num_batched_tokens = 7, .num_pages = 200},
      few{.max_num_batched_tokens = 32, .max_model_len = 32, .page_size = 4, .num_pages = 16},
      guesses{.num_pages = 200, .num_speculative_tokens = 3};
  for (const EngineOptions& options : {plenty, chunks, few, guesses}) {
    const auto engine = make_engine(adaptable_llama(), nullptr, options);
    adapters.load(*engine);
    EXPECT_THAT(engine->adapters(), ElementsAre("a", "b", "c", "d"));
    const auto outputs = complete_all(*engine, requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(outputs[i].error, "");
      EXPECT_EQ(outputs[i].tokens, expected[i]) << "request " << i << ", adapter \"" << requests[i].adapter << '"';
    }
    EXPECT_TRUE(options.num_pages > 16 || engine->stats().preemptions > 0);
    EXPECT_EQ(engine->stats().free_pages, options.num_pages);
  }
}

TEST(Adapters, EmbeddingsAndLogprobsAreTheAdaptedModels) {
  const FourAdapters adapters;
  const auto engine = make_engine(adaptable_llama(), nullptr, {.max_num_batched_tokens = 5, .num_pages = 100});
  adapters.load(*engine);
  Request request = ask("a", 9, 1, 1);
  const at::NoGradGuard no_grad;
  const at::Tensor ids = at::tensor(request.prompt, at::kInt).to(testing_support::device(), at::kLong).unsqueeze(0);
  const at::Tensor scores = (*adapters.d.model)({.input_ids = ids}).logits[0].log_softmax(-1).cpu();
  const at::Tensor hidden = (*adapters.a.model)({.input_ids = ids}).last_hidden_state[0][8].cpu();
  request.kind = RequestKind::Embed;
  EXPECT_TRUE(at::allclose(at::tensor(complete(*engine, request).embedding), hidden.to(at::kFloat), 1e-4, 1e-5));
  request.kind = RequestKind::Generate;
  request.adapter = "d";
  request.sampling.prompt_logprobs = 0;
  const RequestOutput out = complete(*engine, request);
  ASSERT_EQ(out.prompt_logprobs.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_NEAR(out.prompt_logprobs[i].chosen.logprob,
                scores[static_cast<int64_t>(i)][request.prompt[i + 1]].item<double>(), 1e-4);
}

TEST(Adapters, PrefixesBelongToOneAdapter) {
  const FourAdapters adapters;
  const auto engine = make_engine(adaptable_llama(), nullptr, {.num_pages = 100});
  adapters.load(*engine);
  const auto cached = [&](const char* name) {
    const Request request = ask(name, 100, 5, 1);
    const RequestOutput out = complete(*engine, request);
    EXPECT_EQ(out.tokens, answer_of(adapters.model(name), request)) << name;
    return out.cached_tokens;
  };
  for (const int64_t expected : {0, 96}) {
    for (const char* name : {"", "a", "b"}) EXPECT_EQ(cached(name), expected) << name;
  }
  // Another one of the same name, and the same one anew.
  engine->unload_adapter("a");
  engine->load_adapter("a", adapters.b.directory());
  const Request request = ask("a", 100, 5, 1);
  const RequestOutput out = complete(*engine, request);
  EXPECT_EQ(out.cached_tokens, 0);
  EXPECT_EQ(out.tokens, answer_of(*adapters.b.model, request));
  engine->unload_adapter("a");
  engine->load_adapter("a", adapters.a.directory());
  EXPECT_EQ(cached("a"), 0);
  EXPECT_EQ(cached("a"), 96);
}

TEST(Adapters, ComeAndGoWhileRequestsRun) {
  const FourAdapters adapters;
  const auto engine = make_engine(adaptable_llama(), nullptr, {.num_pages = 200});
  engine->load_adapter("a", adapters.a.directory());
  struct Running {
    Request request;
    std::promise<void> begun;
    std::promise<void> ended;
    std::vector<int32_t> tokens;
    Finish finish = Finish::Error;
  };
  Running with{.request = ask("a", 8, 240, 1)}, without{.request = ask("", 8, 240, 2)};
  for (Running* each : {&with, &without}) {
    engine->submit(each->request, [each](const RequestOutput& out) {
      if (each->tokens.empty()) each->begun.set_value();
      each->tokens.insert(each->tokens.end(), out.tokens.begin(), out.tokens.end());
      if (!out.finish) return;
      each->finish = *out.finish;
      each->ended.set_value();
    });
  }
  with.begun.get_future().wait();
  without.begun.get_future().wait();
  engine->unload_adapter("a");
  EXPECT_THAT(engine->adapters(), ElementsAre());
  EXPECT_THAT([&] { engine->submit(ask("a", 8, 2, 1), [](const RequestOutput&) {}); },
              ThrowsMessage<ConfigError>(HasSubstr("there is no adapter \"a\"")));
  engine->load_adapter("b", adapters.b.directory());
  engine->load_adapter("a", adapters.c.directory());  // the name is free, though the old one is in use
  const Request again = ask("a", 8, 12, 1), other = ask("b", 8, 12, 1);
  EXPECT_EQ(complete(*engine, again).tokens, answer_of(*adapters.c.model, again));
  EXPECT_EQ(complete(*engine, other).tokens, answer_of(*adapters.b.model, other));
  for (Running* each : {&with, &without}) {
    each->ended.get_future().wait();
    EXPECT_EQ(each->finish, Finish::Length);
    EXPECT_EQ(each->tokens, answer_of(adapters.model(each->request.adapter), each->request));
  }
  engine->unload_adapter("b");
  engine->unload_adapter("a");
  EXPECT_THAT(engine->adapters(), ElementsAre());
  const Request plain = ask("", 8, 12, 1);
  EXPECT_EQ(complete(*engine, plain).tokens, answer_of(*adapters.plain, plain));
}

TEST(Adapters, AreNothingToAModelOutsideOfTheirSteps) {
  const FourAdapters adapters;
  const auto model = adaptable_llama(float32);
  const Linear* linear = layers_of(*model).at("model.layers.0.self_attn.q_proj").linear;
  ASSERT_NE(linear, nullptr);
  const at::Tensor matrix = linear->matrix(at::kFloat);
  const auto engine = make_engine(model, nullptr, {.num_pages = 100});
  adapters.load(*engine);
  const Request request = ask("", 8, 20, 1);
  EXPECT_TRUE(linear->is_plain());
  EXPECT_EQ(linear->decode_map().has_value(), testing_support::device().is_cpu());
  EXPECT_TRUE(at::equal(linear->matrix(at::kFloat), matrix));
  EXPECT_EQ(complete(*engine, request).tokens, answer_of(*adaptable_llama(float32), request));
}

TEST(Adapters, OnPackedWeights) {
  for (const std::string method : {"8bit", "nf4"}) {
    const auto packed = [&] {
      auto model = adaptable_llama(float32);
      model->quantize({.method = method, .group_size = method == "nf4" ? 32 : 0});
      return model;
    };
    const Alone a(packed(), 4, kEveryMap, {.rngs = RandomKey(11)});
    const Alone b(packed(), 2, "(q|down)_proj$", {.dora = true, .rngs = RandomKey(12)});
    const auto engine = make_engine(packed(), nullptr, {.num_pages = 100});
    engine->load_adapter("a", a.directory());
    engine->load_adapter("b", b.directory());
    const std::vector<Request> requests{ask("a", 8, 12, 1), ask("b", 8, 12, 1), ask("", 8, 12, 1)};
    const auto outputs = complete_all(*engine, requests);
    EXPECT_EQ(outputs[0].tokens, answer_of(*a.model, requests[0])) << method;
    EXPECT_EQ(outputs[1].tokens, answer_of(*b.model, requests[1])) << method;
    EXPECT_EQ(outputs[2].tokens, answer_of(*packed(), requests[2])) << method;
  }
}

TEST(Adapters, OfReplicasThatShareAModel) {
  const FourAdapters adapters;
  const auto model = adaptable_llama();
  const EngineOptions options{.num_pages = 100};
  const auto engine = make_replicas({make_engine(model, nullptr, options), make_engine(model, nullptr, options)});
  adapters.load(*engine);
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 20; ++i) requests.push_back(ask(i % 2 == 0 ? "a" : i % 4 == 1 ? "b" : "", 8, 20, i));
  const auto outputs = complete_all(*engine, requests);
  for (std::size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(outputs[i].tokens, answer_of(adapters.model(requests[i].adapter), requests[i])) << i;
  EXPECT_THAT([&] { engine->load_adapter("a", adapters.b.directory()); },
              ThrowsMessage<ConfigError>(HasSubstr("there is an adapter \"a\" already")));
  engine->unload_adapter("a");
  EXPECT_THAT(engine->adapters(), ElementsAre("b", "c", "d"));
}

TEST(Adapters, TogetherOrInTurnIsTheSame) {
  const auto model = adaptable_llama();
  AdapterTable table(*model);
  const auto layers = layers_of(*model);
  const Linear& linear = *layers.at("model.layers.0.mlp.up_proj").linear;
  const Linear& other = *layers.at("model.layers.0.mlp.down_proj").linear;
  const at::TensorOptions options = at::TensorOptions(at::kDouble).device(testing_support::device());
  at::manual_seed(3);
  for (const int64_t rank : {1, 4, 2}) {
    const at::Tensor factor = rank == 4 ? at::rand({64}, options) : at::Tensor();
    table.add({{&linear, {at::randn({rank, 32}, options), at::randn({rank, 64}, options), factor}}});
  }
  table.add({{&other, {at::randn({3, 64}, options), at::randn({3, 32}, options), {}}}});
  StepInputs inputs;
  inputs.adapters = {-1, 0, 1, 1, 2, -1, 3, 0};
  for (const int64_t tokens : {1, 1, 1, 2, 3, 2, 4, 1}) {
    inputs.parts.push_back({.tokens = tokens});
    inputs.tokens.resize(inputs.tokens.size() + static_cast<std::size_t>(tokens));
  }
  inputs.logit_places = {0, 1, 4, 6, 7, 9, 14};
  const AdapterScope scope(table, inputs);
  EXPECT_TRUE(linear.is_adapted());
  for (const int64_t rows : {15, 7}) {
    const at::Tensor x = at::randn({rows, 32}, options), y = at::randn({rows, 64}, options);
    const at::Tensor in_turn = y.clone(), together = y.clone();
    adapt_in_turn(scope, linear, x, in_turn);
    adapt_together(scope, linear, x, together);
    EXPECT_TRUE(at::allclose(in_turn, together, 1e-12, 1e-12));
    const at::Tensor changed = in_turn.ne(y).any(1).cpu();
    std::vector<bool> expected{false, true,  true,  true,  true,  true,  true, true,
                               false, false, false, false, false, false, true};
    if (rows == 7) expected = {false, true, true, true, true, false, true};
    for (int64_t i = 0; i < rows; ++i)
      EXPECT_EQ(changed[i].item<bool>(), expected[static_cast<std::size_t>(i)]) << i << " of " << rows;
  }
}

// All maps that can have one.
std::string adaptable_maps(const BaseModule& model) {
  std::string pattern;
  for (const auto& [path, layer] : layers_of(model)) {
    if (!layer.linear || path.ends_with("kv_b_proj")) continue;
    pattern += pattern.empty() ? "^(" : "|";
    for (const char c : path) pattern += c == '.' ? std::string("\\.") : std::string(1, c);
  }
  return pattern + ")$";
}

void check_family(uint64_t seed, int64_t devices) {
  Problem p;
  for (uint64_t n = 0; !p.config || p.task != TaskType::CausalLM ||
                       operations::rope_depends_on_length(p.config->rope) || testing_support::has_states(*p.config);
       ++n)
    p = testing_support::draw_problem(seed + 1000003 * n, devices);
  SCOPED_TRACE(concat(p.to_string(), "\nseed ", seed));
  const auto plain = testing_support::make_model(p);
  const std::string maps = adaptable_maps(*plain);
  const Alone a(testing_support::make_model(p), 3, maps, {.rngs = RandomKey(seed)});
  const Alone b(testing_support::make_model(p), 2, maps, {.dora = true, .rngs = RandomKey(seed + 1)});
  std::vector<Request> requests;
  std::vector<std::vector<int32_t>> expected;
  for (uint64_t i = 0; i < 9; ++i) {
    const char* names[] = {"a", "", "b"};
    requests.push_back(ask(names[i % 3], 1 + static_cast<int64_t>(i % 5), 8, seed + i, p.config->vocab_size));
    expected.push_back(answer_of(i % 3 == 0 ? *a.model : i % 3 == 1 ? *plain : *b.model, requests.back()));
  }
  run_ranks(p.mesh.size(), [&](World& world) {
    auto model = testing_support::make_model(p);
    if (p.mesh.size() > 1) model->shard_model(p.rules, p.mesh);
    const auto engine = make_engine(
        model, nullptr, {.max_num_batched_tokens = 11, .max_model_len = 16, .page_size = 4, .num_pages = 12});
    if (world.rank() > 0) {
      engine->drain(std::chrono::minutes(5));
      return;
    }
    EXPECT_THAT([&] { engine->load_adapter("a", (a.files / "none").string()); }, testing::Throws<Error>());
    std::filesystem::create_directory(a.files / "empty");
    EXPECT_THAT([&] { engine->load_adapter("a", (a.files / "empty").string()); }, testing::Throws<IoError>());
    engine->load_adapter("a", b.directory());
    engine->load_adapter("b", b.directory());
    engine->unload_adapter("a");
    engine->load_adapter("a", a.directory());
    const std::vector<RequestOutput> outputs = complete_all(*engine, requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(outputs[i].error, "");
      EXPECT_EQ(outputs[i].tokens, expected[i]) << "request " << i << ", adapter \"" << requests[i].adapter << "\"\n"
                                                << p.to_string() << "\nseed " << seed;
    }
  });
}

TEST(Adapters, OnAnyModel) {
  for (uint64_t seed = 1; seed < 25 && !HasFailure(); ++seed) check_family(seed, 1);
}

TEST(Adapters, OnAnyMesh) {
  for (uint64_t seed = 200; seed < 208 && !HasFailure(); ++seed) check_family(seed, 0);
}

TEST(Adapters, SayWhatTheyCannot) {
  const FourAdapters adapters;
  const auto engine = make_engine(adaptable_llama(), nullptr, {.num_pages = 100});
  const auto refusal = [&](const Alone& alone, const char* words) {
    EXPECT_THAT([&] { engine->load_adapter("x", alone.directory()); }, ThrowsMessage<Error>(HasSubstr(words)));
  };
  refusal(Alone(adaptable_llama(), 2, "q_proj", {.modules_to_save = {"lm_head"}}),
          "replaces \"lm_head.weight\" (\"modules_to_save\")");
  refusal(Alone(adaptable_llama(), 2, "q_proj|embed_tokens", {.embeddings = true}),
          "changes the embeddings \"model.embed_tokens\"");
  refusal(Alone(adaptable_llama(float64, 48), 2, "q_proj"), "this adapter is for a different model");
  const Alone split(adaptable_llama(), 2, "q_proj");
  Json settings = Json::parse_file((split.files / "adapter_config.json").string());
  settings["init_lora_weights"] = "pissa";
  write_file_atomically(split.files / "adapter_config.json", settings.dump());
  refusal(split, "changes the weights of the base");
  const auto message = [](const char* words) { return ThrowsMessage<ConfigError>(HasSubstr(words)); };
  EXPECT_THAT([&] { engine->load_adapter("", adapters.a.directory()); }, message("needs a name"));
  engine->load_adapter("a", adapters.a.directory());
  EXPECT_THAT([&] { engine->load_adapter("a", adapters.b.directory()); }, message("there is an adapter \"a\" already"));
  EXPECT_THAT([&] { engine->unload_adapter("x"); }, message("there is no adapter \"x\""));
  EXPECT_THAT([&] { engine->unload_adapter(""); }, message("there is no adapter \"\""));
  EXPECT_THAT([&] { complete(*engine, ask("x", 4, 4, 1)); }, message("there is no adapter \"x\""));
  EXPECT_THAT(engine->adapters(), ElementsAre("a"));
  const auto own = make_engine(adapters.b.model, nullptr, {.num_pages = 100});
  EXPECT_THAT([&] { own->load_adapter("a", adapters.a.directory()); }, message("has an adapter of the model already"));
}

}  // namespace
}  // namespace easydel::serve
