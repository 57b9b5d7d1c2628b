// Adapters on a model: what they change, what trains, what is taken apart and put together, and what is refused.
#include "easydel/lora/lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/infra/state/state.h"
#include "easydel/optim/optimizers.h"
#include "easydel/quantization/calibrate.h"
#include "tests/infra/on_mesh.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kPattern = "(q|v|down)_proj$";

// An adapter that changes the outputs.
std::shared_ptr<LlamaForCausalLM> adapted(const std::string& name = "default", bool dora = false) {
  auto model = tiny_llama();
  model->apply_lora_to_layers(3, 6, kPattern, {.adapter_name = name, .dora = dora, .init = LoraInit::Random});
  return model;
}

at::Tensor loss_of(const BaseModule& model) {
  return model({.input_ids = tiny_ids(4, 8), .labels = tiny_ids(4, 8)}).loss;
}

// Of the largest element: a merged weight is rounded once, to float32.
double distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

TEST(Lora, BeginsWhereTheBaseIs) {
  const at::Tensor before = logits_of(*tiny_llama());
  for (const bool dora : {false, true}) {
    auto model = tiny_llama();
    model->apply_lora_to_layers(3, 6, kPattern, {.dora = dora});
    EXPECT_TRUE(model->lora_is_enabled());
    EXPECT_TRUE(is_close(logits_of(*model), before));
    model->unwrap_lora_to_layers();
    EXPECT_FALSE(model->lora_is_enabled());
    EXPECT_TRUE(is_close(logits_of(*model), before));
  }
  EXPECT_FALSE(is_close(logits_of(*adapted()), before));
}

TEST(Lora, IsDrawnTheSameOnAnyMeshAndInAnyOrder) {
  const auto one = adapted();
  auto late = lazy_init<LlamaForCausalLM>(tiny_config());
  late->apply_lora_to_layers(3, 6, kPattern, {.init = LoraInit::Random});
  late->initialize({});
  const auto [base, lora] = one->split_lora_params();
  EXPECT_EQ(lora.size(), 2 * 6u);
  for (const auto& [path, tensor] : lora) EXPECT_TRUE(at::equal(tensor, late->params().at(path))) << path;
  on_mesh({1, 2, 1, 2, 1}, [&](const Mesh& mesh, World&) {
    auto model = tiny_llama();
    model->fully_shard(mesh);
    model->apply_lora_to_layers(3, 6, kPattern, {.init = LoraInit::Random});
    for (const auto& [path, parameter] : model->named_parameters()) {
      if (!lora.contains(path)) continue;
      EXPECT_TRUE(at::equal(parameter->whole(), lora.at(path))) << path;
    }
  });
}

TEST(Lora, OnlyAdaptersTrainAndHaveOptimizerState) {
  const auto model = adapted();
  const auto [base, lora] = model->split_lora_params();
  const State state = model->to_state(optim::adamw(1e-2));
  const auto grads = value_and_grad(state, loss_of).second;
  EXPECT_EQ(grads.paths(), lora.paths());
  EXPECT_EQ(state.opt_state->nbytes(), 2 * lora.nbytes());
  const State next = state.apply_gradients(grads);
  for (const auto& [path, tensor] : next.graphstate)
    EXPECT_EQ(at::equal(tensor, state.graphstate.at(path)), !lora.contains(path)) << path;
  EXPECT_LT(loss_of(*next.model()).item<double>(), loss_of(*model).item<double>());
  // What is taken off trains again.
  model->unwrap_lora_to_layers();
  EXPECT_EQ(value_and_grad(model->to_state(), loss_of).second.paths(), model->params().paths());
}

TEST(Lora, AStateIsSavedAsAdapterAndOptimizer) {
  const TemporaryDirectory directory;
  const auto model = adapted("default", /*dora=*/true);
  set_saves_merged(*model, true);
  State state = model->to_state(optim::adamw(1e-2));
  state = state.apply_gradients(value_and_grad(state, loss_of).second);
  state.save_state(directory.path() / "run", {.verbose = false});
  // The adapter on a fresh base, with its optimizer.
  auto fresh = tiny_llama();
  load_adapter(*fresh, adapter_directory(*model, directory.path() / "run", "default"));
  EXPECT_TRUE(at::equal(logits_of(*fresh), logits_of(*state.model())));
  State again = fresh->to_state();
  again.tx = optim::adamw(1e-2);
  again = again.load_optimizer(directory.path() / "run");
  again.step = 1;
  const State a = state.apply_gradients(value_and_grad(state, loss_of).second);
  const State b = again.apply_gradients(value_and_grad(again, loss_of).second);
  for (const auto& [path, tensor] : a.graphstate) EXPECT_TRUE(at::equal(tensor, b.graphstate.at(path))) << path;
  // And a model that runs by itself.
  const auto merged = load_model((directory.path() / "run").string(), TaskType::CausalLM, {.verbose = false});
  EXPECT_LT(distance(logits_of(*merged), logits_of(*state.model())), 1e-5);
}

TEST(Lora, MergesAndComesBackExactly) {
  for (const bool dora : {false, true}) {
    const auto model = adapted("default", dora);
    const at::Tensor before = logits_of(*model);
    const at::Tensor weight = model->params().at("model.layers.0.self_attn.q_proj.weight").detach().clone();
    model->merge_lora_params();
    EXPECT_TRUE(lora_is_merged(*model));
    EXPECT_LT(distance(logits_of(*model), before), 1e-5);
    EXPECT_LT(distance(logits_of(*model->to_state().model()), before), 1e-5);
    EXPECT_FALSE(at::equal(model->params().at("model.layers.0.self_attn.q_proj.weight"), weight));
    unmerge_lora_params(*model);
    EXPECT_TRUE(at::equal(model->params().at("model.layers.0.self_attn.q_proj.weight"), weight));
    EXPECT_TRUE(at::equal(logits_of(*model), before));
    model->unwrap_lora_to_layers();
    EXPECT_LT(distance(logits_of(*model), before), 1e-5);
    EXPECT_EQ(model->params().paths(), tiny_llama()->params().paths());
  }
}

TEST(Lora, PutsBackWhatWasSplitOff) {
  const auto model = adapted();
  const at::Tensor before = logits_of(*model);
  const auto [base, lora] = model->split_lora_params();
  GraphState zeros, kept;
  for (const auto& [path, tensor] : lora) zeros.set(path, at::zeros_like(tensor));
  for (const auto& [path, tensor] : lora) kept.set(path, tensor.detach().clone());
  model->merge_lora_params(zeros);
  EXPECT_FALSE(lora_is_merged(*model));  // the weights stay the base's, and the adapter an adapter
  EXPECT_TRUE(at::equal(logits_of(*model), logits_of(*tiny_llama())));
  model->merge_lora_params(kept);
  EXPECT_TRUE(at::equal(logits_of(*model), before));
  EXPECT_THAT([&] { model->merge_lora_params(base); },
              ThrowsMessage<ConfigError>(HasSubstr("is not a parameter of an adapter")));
  model->merge_lora_params();
  EXPECT_THAT([&] { model->merge_lora_params(kept); },
              ThrowsMessage<ConfigError>("[merge_lora_params] the adapters are merged into the weights: "
                                         "unmerge_lora_params() first."));
}

TEST(Lora, NamesTheModelThatItWasMadeFor) {
  const TemporaryDirectory directory;
  tiny_llama()->save_pretrained(directory / "base", {.verbose = false});
  const auto name = [&](const char* folder) {
    return Json::parse_file((directory / folder / "adapter_config.json").string()).at("base_model_name_or_path");
  };
  const std::string base = (directory / "base").string();
  const auto model = LlamaForCausalLM::from_pretrained(base, {.verbose = false});
  model->apply_lora_to_layers(2, 4, "q_proj");
  save_adapter(*model, directory / "one");
  EXPECT_EQ(name("one"), Json(base));
  model->to_state().save_state(directory / "run", {.verbose = false});
  EXPECT_EQ(name("run/adapter"), Json(base));
  save_adapter(*model, directory / "other", "default", "org/name");
  EXPECT_EQ(name("other"), Json("org/name"));
  // One that was read keeps its name.
  const auto again = LlamaForCausalLM::from_pretrained(base, {.verbose = false});
  load_adapter(*again, directory / "other");
  save_adapter(*again, directory / "again");
  EXPECT_EQ(name("again"), Json("org/name"));
}

TEST(Lora, IsSwitchedOffAndOnAndDeleted) {
  const auto model = adapted("a");
  const at::Tensor with = logits_of(*model), without = logits_of(*tiny_llama());
  disable_adapters(*model);
  EXPECT_FALSE(model->lora_is_enabled());
  EXPECT_TRUE(at::equal(logits_of(*model), without));
  enable_adapters(*model);
  EXPECT_TRUE(at::equal(logits_of(*model), with));
  model->apply_lora_to_layers(2, 2, "k_proj", {.adapter_name = "b", .init = LoraInit::Random});
  EXPECT_EQ(active_adapters(*model), (std::vector<std::pair<std::string, double>>{{"b", 1.0}}));
  EXPECT_FALSE(is_close(logits_of(*model), with));
  set_adapter(*model, "a");
  EXPECT_TRUE(at::equal(logits_of(*model), with));
  EXPECT_TRUE(at::equal(logits_of(*model->to_state().model()), with));
  delete_adapter(*model, "b");
  EXPECT_EQ(adapter_names(*model), std::vector<std::string>{"a"});
  delete_adapter(*model, "a");
  EXPECT_EQ(model->params().paths(), tiny_llama()->params().paths());
  EXPECT_TRUE(at::equal(logits_of(*model), without));
}

TEST(Lora, LeavesATiedHeadAlone) {
  LlamaConfig config = tiny_config();
  config.tie_word_embeddings = true;
  auto model = make_model<LlamaForCausalLM>(config);
  model->apply_lora_to_layers(2, 2, ".*");
  EXPECT_FALSE(model->params().contains("lm_head.lora_A.default.weight"));
  EXPECT_THAT([&] { model->apply_lora_to_layers(2, 2, "lm_head", {.adapter_name = "b"}); },
              ThrowsMessage<ConfigError>(HasSubstr("but one that is tied to the embeddings")));
}

TEST(Lora, RefusesWhatMakesNoSense) {
  const auto message = [](const std::string& text) { return ThrowsMessage<ConfigError>(HasSubstr(text)); };
  auto model = tiny_llama();
  EXPECT_THAT([&] { model->apply_lora_to_layers(2, 2, "query"); },
              message("[apply_lora_to_layers] lora_pattern \"query\" matches no linear layer of LlamaForCausalLM."));
  EXPECT_THAT([&] { model->apply_lora_to_layers(0, 2, ".*"); }, message("r must be at least 1; got 0."));
  EXPECT_THAT([&] { model->apply_lora_to_layers(2, 0, ".*"); }, message("lora_alpha must be above 0; got 0."));
  EXPECT_THAT([&] { model->apply_lora_to_layers(2, 2, ".*", {.dropout = 1}); }, message("lora_dropout"));
  EXPECT_THAT([&] { model->apply_lora_to_layers(2, 2, ".*", {.adapter_name = "a.b"}); },
              message("must not be empty or contain dots"));
  EXPECT_THAT([&] { model->merge_lora_params(); }, message("[merge_lora_params] the model has no adapters"));
  EXPECT_THAT([&] { model->split_lora_params(); }, message("the model has no adapters"));
  auto lazy = lazy_init<LlamaForCausalLM>(tiny_config());
  EXPECT_THAT([&] { lazy->apply_lora_to_layers(2, 2, ".*", {.dora = true}); }, message("has no weights yet"));

  model = adapted();
  EXPECT_THAT([&] { model->apply_lora_to_layers(2, 2, ".*"); }, message("has an adapter \"default\" already"));
  EXPECT_THAT([&] { set_adapter(*model, "other"); }, message("no adapter \"other\"; it has: default."));
  EXPECT_THAT([&] { set_adapters(*model, {{"default", 1}, {"default", 2}}); }, message("is named twice"));
  EXPECT_THAT([&] { add_weighted_adapter(*model, {{"default", 1}}, "sum", "svd"); }, message("must be cat or linear"));
  model->merge_lora_params();
  EXPECT_THAT([&] { model->merge_lora_params(); }, message("the adapters are already merged"));
  EXPECT_THAT([&] { model->apply_lora_to_layers(2, 2, ".*", {.adapter_name = "b"}); },
              message("[apply_lora_to_layers] the adapters of this model are merged into its weights"));
  EXPECT_THAT([&] { set_adapter(*model, "default"); }, message("unmerge_lora_params() first"));
  unmerge_lora_params(*model);
  EXPECT_THAT([&] { unmerge_lora_params(*model); }, message("nothing is merged"));
}

LlamaConfig packable_config() {
  LlamaConfig config = tiny_config();
  config.hidden_size = 64;
  config.intermediate_size = 96;
  config.initializer_range = 0.1;
  return config;
}

TEST(Lora, IsMergedIntoPackedWeightsByTheSameMethod) {
  for (const std::string method : {"8bit", "nf4", "int4", "a8bit", "a4q"}) {
    SCOPED_TRACE(method);
    const auto packed = [&] {
      auto model = make_model<LlamaForCausalLM>(packable_config());
      QuantizeOptions options{.method = method, .group_size = method.find('8') == std::string::npos ? 32 : 0};
      std::vector<int64_t> text;
      for (int64_t i = 0; i < 100; ++i) text.push_back(i * i % 29);
      if (method == "a8bit" || method == "a4q") options.calibration = calibrate(*model, text, {.window = 20});
      model->quantize(options);
      model->apply_lora_to_layers(3, 6, kPattern, {.init = LoraInit::Random});
      return model;
    };
    const auto model = packed();
    const at::Tensor beside = logits_of(*model);
    std::map<std::string, at::Tensor> expected;  // what the codes and the adapter make up
    for (const auto& [path, module] : model->named_modules()) {
      const auto* linear = dynamic_cast<const Linear*>(module);
      if (linear && linear->adapter()) expected[path] = linear->matrix(float32).detach();
    }
    model->merge_lora_params();
    for (const auto& [path, matrix] : expected) {
      for (const auto& [own, module] : model->named_modules()) {
        if (own != path) continue;
        const at::Tensor merged = static_cast<const Linear*>(module)->matrix(float32);
        const double off = ((merged - matrix).norm() / matrix.norm()).item<double>();
        EXPECT_LT(off, method.find('8') != std::string::npos ? 0.02 : 0.13) << path;
        EXPECT_GT(off, 0) << path;
      }
    }
    const at::Tensor merged = logits_of(*model);
    on_mesh({1, 2, 1, 2, 1}, [&](const Mesh& mesh, World&) {
      const auto sharded = packed();
      sharded->shard_model({}, mesh);
      sharded->merge_lora_params();
      EXPECT_LT(distance(logits_of(*sharded), merged), 1e-4);
    });
    unmerge_lora_params(*model);
    EXPECT_TRUE(at::equal(logits_of(*model), beside));
    model->unwrap_lora_to_layers();
    EXPECT_TRUE(model->is_quantized());
    EXPECT_LT(distance(logits_of(*model), merged), 1e-6);
  }
}

TEST(Lora, OfTablesAndFromTheBaseSayWhatTheyCannot) {
  const auto tied = [] {
    LlamaConfig config = packable_config();
    config.tie_word_embeddings = true;
    return make_model<LlamaForCausalLM>(config);
  }();
  tied->apply_lora_to_layers(2, 2, "embed_tokens", {.init = LoraInit::Random, .embeddings = true});
  EXPECT_THAT([&] { tied->merge_lora_params(); },
              ThrowsMessage<NotSupportedError>(HasSubstr("shares its weight with the embeddings")));
  const auto model = make_model<LlamaForCausalLM>(packable_config());
  EXPECT_THAT([&] { model->apply_lora_to_layers(2, 2, "embed_tokens"); },
              ThrowsMessage<ConfigError>(HasSubstr("matches no linear layer")));
  EXPECT_THAT([&] { model->apply_lora_to_layers(2, 2, "embed_tokens", {.dora = true, .embeddings = true}); },
              ThrowsMessage<NotSupportedError>(HasSubstr("is an embedding table, which does not support DoRA")));
  EXPECT_THAT([&] { model->apply_lora_to_layers(65, 2, "q_proj", {.init = LoraInit::Pissa}); },
              ThrowsMessage<ConfigError>(HasSubstr("the rank of PiSSA is at most 64")));
  const auto packed = make_model<LlamaForCausalLM>(packable_config());
  packed->quantize();
  EXPECT_THAT([&] { packed->apply_lora_to_layers(2, 2, "q_proj", {.init = LoraInit::Olora}); },
              ThrowsMessage<NotSupportedError>(HasSubstr("is quantized or an embedding table")));
}

}  // namespace
}  // namespace easydel
