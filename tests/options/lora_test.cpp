// What the options of adapters do, and the keys of adapter_config.json.
#include "easydel/lora/lora.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>

#include "easydel/core/file.h"
#include "tests/infra/tiny_llama.h"
#include "tests/support/probe.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel::lora_probes {
namespace {

using testing::ElementsAre;
using testing_support::is_refused;
using testing_support::LogLines;

const std::string kQuery = "model.layers.0.self_attn.q_proj";

// With an adapter of rank 4 that changes the outputs.
std::shared_ptr<LlamaForCausalLM> adapted(LoraOptions options = {.init = LoraInit::Random}, double alpha = 4) {
  auto model = tiny_llama();
  model->apply_lora_to_layers(4, alpha, "(q|v)_proj$", options);
  return model;
}

at::Tensor training_logits(const BaseModule& model) {
  return logits_of(model, {.input_ids = tiny_ids(), .dropout_key = RandomKey(5)});
}

PROBE(LoraOptions, adapter_name) {
  EXPECT_THAT(adapter_names(*adapted({.adapter_name = "mine"})), ElementsAre("mine"));
  EXPECT_TRUE(adapted({.adapter_name = "mine"})->params().contains(kQuery + ".lora_A.mine.weight"));
}
PROBE(LoraOptions, dropout) {
  const auto plain = adapted(), dropping = adapted({.dropout = 0.5, .init = LoraInit::Random});
  EXPECT_TRUE(at::equal(logits_of(*plain), logits_of(*dropping)));
  EXPECT_TRUE(at::equal(training_logits(*plain), logits_of(*plain)));
  EXPECT_FALSE(at::allclose(training_logits(*dropping), logits_of(*plain)));
}
// alpha / sqrt(4) is twice alpha / 4.
PROBE(LoraOptions, rslora) {
  const auto model = adapted({.rslora = true, .init = LoraInit::Random});
  EXPECT_TRUE(is_close(logits_of(*model), logits_of(*adapted({.init = LoraInit::Random}, 8))));
  EXPECT_FALSE(at::allclose(logits_of(*model), logits_of(*adapted())));
}
PROBE(LoraOptions, dora) {
  const auto model = adapted({.dora = true});
  const at::Tensor magnitude = model->params().at(kQuery + ".lora_magnitude_vector.default.weight");
  EXPECT_TRUE(is_close(magnitude, model->params().at(kQuery + ".weight").norm(2, 1)));
  EXPECT_FALSE(adapted()->params().contains(kQuery + ".lora_magnitude_vector.default.weight"));
}
PROBE(LoraOptions, init) {
  const auto b = [](LoraInit init) {
    return adapted({.init = init})->params().at(kQuery + ".lora_B.default.weight").abs().max().item<double>();
  };
  EXPECT_EQ(b(LoraInit::Default), 0);
  EXPECT_EQ(b(LoraInit::Gaussian), 0);
  EXPECT_GT(b(LoraInit::Random), 0);
  // PiSSA takes what the adapter holds off the weight.
  const auto pissa = adapted({.init = LoraInit::Pissa});
  EXPECT_FALSE(at::allclose(pissa->params().at(kQuery + ".weight"), tiny_llama()->params().at(kQuery + ".weight")));
  EXPECT_TRUE(is_close(logits_of(*pissa), logits_of(*tiny_llama()), {1e-3, 1e-4}));
}
PROBE(LoraOptions, rank_pattern) {
  const TensorMap params = adapted({.rank_pattern = {{"v_proj", 2}}})->params();
  EXPECT_EQ(params.at("model.layers.0.self_attn.v_proj.lora_A.default.weight").size(0), 2);
  EXPECT_EQ(params.at(kQuery + ".lora_A.default.weight").size(0), 4);
}
PROBE(LoraOptions, alpha_pattern) {
  const auto all = adapted({.init = LoraInit::Random, .alpha_pattern = {{"q_proj", 8.0}, {"v_proj", 8.0}}});
  EXPECT_TRUE(is_close(logits_of(*all), logits_of(*adapted({.init = LoraInit::Random}, 8))));
}
PROBE(LoraOptions, modules_to_save) {
  EXPECT_FALSE(adapted()->params().at("lm_head.weight").requires_grad());
  EXPECT_TRUE(adapted({.modules_to_save = {"lm_head"}})->params().at("lm_head.weight").requires_grad());
}
PROBE(LoraOptions, embeddings) {
  auto model = tiny_llama();
  EXPECT_TRUE(is_refused("embed_tokens", [&] { model->apply_lora_to_layers(2, 2, "embed_tokens"); }));
  model->apply_lora_to_layers(2, 2, "embed_tokens", {.embeddings = true});
  EXPECT_TRUE(model->params().contains("model.embed_tokens.lora_embedding_A.default.weight"));
}
PROBE(LoraOptions, rngs) {
  const auto a = [](const LoraOptions& options) {
    return adapted(options)->params().at(kQuery + ".lora_A.default.weight");
  };
  EXPECT_TRUE(at::equal(a({.rngs = RandomKey(3)}), a({.rngs = RandomKey(3)})));
  EXPECT_FALSE(at::equal(a({.rngs = RandomKey(3)}), a({})));
}
PROBE(LoraOptions, verbose) {
  LogLines log;
  adapted();
  EXPECT_TRUE(log.lines().empty());
  adapted({.verbose = true});
  EXPECT_TRUE(log.contain("4 layers have the adapter \"default\", of rank 4"));
}

// The files of an adapter, with keys of its config changed before they are read.
class AdapterFiles {
 public:
  explicit AdapterFiles(const LoraOptions& options = {.init = LoraInit::Random}) {
    save_adapter(*adapted(options), directory.path());
  }
  std::shared_ptr<LlamaForCausalLM> load(const Json& changes = Json::object()) const {
    const std::string file = (directory / "adapter_config.json").string();
    Json config = Json::parse_file(file);
    for (const auto& [key, value] : changes.as_object()) config[key] = value;
    write_file_atomically(file, config.dump());
    auto model = tiny_llama();
    load_adapter(*model, directory.path());
    return model;
  }

  TemporaryDirectory directory;
};

PROBE(LoraConfig, r) {
  EXPECT_TRUE(at::equal(logits_of(*AdapterFiles().load()), logits_of(*adapted())));
  EXPECT_TRUE(is_refused("this model needs [3, 16]", [] { AdapterFiles().load(Json::object({{"r", 3}})); }));
  EXPECT_TRUE(is_refused("r must be at least 1", [] { LoraConfig{.r = 0}.validate("x"); }));
}
PROBE(LoraConfig, lora_alpha) {
  EXPECT_TRUE(is_close(logits_of(*AdapterFiles().load(Json::object({{"lora_alpha", 8}}))),
                       logits_of(*adapted({.init = LoraInit::Random}, 8))));
}
PROBE(LoraConfig, lora_dropout) {
  const auto model = AdapterFiles().load(Json::object({{"lora_dropout", 0.5}}));
  const auto dropping = adapted({.dropout = 0.5, .init = LoraInit::Random});
  EXPECT_TRUE(at::equal(training_logits(*model), training_logits(*dropping)));
  EXPECT_FALSE(at::allclose(training_logits(*model), training_logits(*adapted())));
}
PROBE(LoraConfig, use_rslora) {
  EXPECT_EQ((LoraConfig{.r = 4, .lora_alpha = 8}.scaling_of("a", 4)), 2);
  EXPECT_EQ((LoraConfig{.r = 4, .lora_alpha = 8, .use_rslora = true}.scaling_of("a", 4)), 4);
  EXPECT_TRUE(is_close(logits_of(*AdapterFiles().load(Json::object({{"use_rslora", true}}))),
                       logits_of(*adapted({.init = LoraInit::Random}, 8))));
}
PROBE(LoraConfig, use_dora) {
  EXPECT_TRUE(is_refused("lora_magnitude_vector", [] { AdapterFiles().load(Json::object({{"use_dora", true}})); }));
  const AdapterFiles files({.dora = true, .init = LoraInit::Random});
  EXPECT_TRUE(is_refused("use_dora", [&] { files.load(Json::object({{"use_dora", false}})); }));
}
// PiSSA's part is taken off the base before the adapter's weights come.
PROBE(LoraConfig, init) {
  const auto plain = AdapterFiles().load(), pissa = AdapterFiles().load(Json::object({{"init_lora_weights", "pissa"}}));
  const at::Tensor base = tiny_llama()->params().at(kQuery + ".weight");
  EXPECT_TRUE(at::equal(plain->params().at(kQuery + ".weight"), base));
  EXPECT_FALSE(at::allclose(pissa->params().at(kQuery + ".weight"), base));
}
PROBE(LoraConfig, rank_pattern) {
  EXPECT_EQ((LoraConfig{.rank_pattern = {{"q_proj", 3}}}.rank_of(kQuery)), 3);
  EXPECT_TRUE(is_refused("this model needs [3, 16]", [] {
    AdapterFiles().load(Json::object({{"rank_pattern", Json::object({{"q_proj", 3}})}}));
  }));
}
PROBE(LoraConfig, alpha_pattern) {
  EXPECT_EQ((LoraConfig{.alpha_pattern = {{"q_proj", 3.0}}}.alpha_of(kQuery)), 3);
  const Json both = Json::object({{"q_proj", 8}, {"v_proj", 8}});
  EXPECT_TRUE(is_close(logits_of(*AdapterFiles().load(Json::object({{"alpha_pattern", both}}))),
                       logits_of(*adapted({.init = LoraInit::Random}, 8))));
}
PROBE(LoraConfig, modules_to_save) {
  const AdapterFiles files({.init = LoraInit::Random, .modules_to_save = {"lm_head"}});
  EXPECT_TRUE(files.load()->params().at("lm_head.weight").requires_grad());
  EXPECT_TRUE(is_refused("modules_to_save", [&] { files.load(Json::object({{"modules_to_save", Json()}})); }));
}
// What nobody here knows is written back.
PROBE(LoraConfig, file) {
  const AdapterFiles files;
  const auto model = files.load(Json::object({{"revision", "v2"}}));
  EXPECT_EQ(adapter_config(*model).file.at("revision"), Json("v2"));
  save_adapter(*model, files.directory / "again");
  EXPECT_EQ(Json::parse_file((files.directory / "again/adapter_config.json").string()).at("revision"), Json("v2"));
}

}  // namespace
}  // namespace easydel::lora_probes
