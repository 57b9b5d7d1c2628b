// Models by the name of their files: what fits, what does not, and what is refused.
#include "easydel/infra/auto_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/infra/registry.h"
#include "easydel/io/safetensors/safetensors_writer.h"
#include "tests/infra/tiny_llama.h"
#include "tests/infra/toy_config.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

// Keeps the lines that are logged while it lives.
class LogLines {
 public:
  LogLines() {
    log::set_sink([this](log::Level, const std::string& line) { lines.push_back(line); });
  }
  ~LogLines() { log::set_sink({}); }
  std::vector<std::string> lines;
};

class Files : public testing::Test {
 protected:
  void SetUp() override { tiny_llama()->save_pretrained(directory_.path(), {.verbose = false}); }
  // Writes the weights again, with some changed: an undefined tensor is left out.
  void change(const TensorMap& changes) {
    NamedTensors tensors;
    for (const auto& [path, tensor] : tiny_llama()->params()) {
      if (!changes.contains(path)) tensors.emplace_back(path, tensor.detach());
    }
    for (const auto& [path, tensor] : changes) {
      if (tensor.defined()) tensors.emplace_back(path, tensor);
    }
    save_safetensors(directory_ / "model.safetensors", tensors);
  }
  template <class Auto = AutoModelForCausalLM>
  std::shared_ptr<BaseModule> load(LoadOptions options = {}) {
    options.verbose = false;
    return Auto::from_pretrained(directory_.path().string(), options);
  }
  std::string where() const { return concat("[", (directory_ / "model.safetensors").string(), "] "); }

  TemporaryDirectory directory_;
};

TEST_F(Files, GiveTheModelThatWasSaved) {
  LogLines log;
  const auto model = load();
  EXPECT_EQ(model->type_name(), "LlamaForCausalLM");
  EXPECT_TRUE(at::equal(logits_of(*model), logits_of(*tiny_llama())));
  EXPECT_THAT(log.lines, IsEmpty());
}

TEST_F(Files, GiveTheDtypesThatAreAskedFor) {
  const auto model = load({.dtype = bfloat16, .param_dtype = float16, .precision = "highest"});
  EXPECT_EQ(model->dtype(), bfloat16);
  EXPECT_EQ(model->module_dtype(), float16);
  EXPECT_EQ(model->param_dtype(), float16);
  EXPECT_EQ(model->precision(), Precision::Highest);
  EXPECT_EQ(logits_of(*model).scalar_type(), bfloat16);
}

TEST_F(Files, AreReadWithChangesToTheConfig) {
  const auto model = load({.config_kwargs = Json::object({{"attn_mechanism", "vanilla"}, {"rms_norm_eps", 0.5}})});
  EXPECT_EQ(model->config().get("attn_mechanism"), Json("vanilla"));
  EXPECT_FALSE(at::allclose(logits_of(*model), logits_of(*tiny_llama())));
}

TEST_F(Files, AllThatIsMissingMisshapenOrUnknownIsListedAtOnce) {
  change({{"model.norm.weight", at::Tensor()},
          {"model.layers.1.mlp.up_proj.weight", at::Tensor()},
          {"lm_head.weight", at::zeros({28, 16})},
          {"model.layers.0.self_attn.q_proj.weight", at::zeros({16})},
          {"model.layers.7.extra", at::zeros({1})}});
  EXPECT_THAT(
      [&] { load(); },
      ThrowsMessage<FormatError>(where() + "the tensors do not match LlamaForCausalLM.\n"
                                           "missing (2):\n"
                                           "  model.layers.1.mlp.up_proj.weight\n"
                                           "  model.norm.weight\n"
                                           "with mismatched shapes (2):\n"
                                           "  \"model.layers.0.self_attn.q_proj.weight\" is [16]; the config asks for "
                                           "[16, 16]\n"
                                           "  \"lm_head.weight\" is [28, 16]; the config asks for [29, 16]\n"
                                           "unknown (1):\n"
                                           "  model.layers.7.extra"));
}

TEST_F(Files, AMissingTensorIsAnError) {
  change({{"model.norm.weight", at::Tensor()}});
  EXPECT_THAT([&] { load(); }, ThrowsMessage<FormatError>(where() + "the tensors do not match LlamaForCausalLM.\n"
                                                                    "missing (1):\n"
                                                                    "  model.norm.weight"));
}

TEST_F(Files, AnUnknownTensorIsAWarning) {
  change({{"model.layers.7.extra", at::zeros({1})}, {"model.layers.0.self_attn.rotary_emb.inv_freq", at::zeros({2})}});
  LogLines log;
  EXPECT_TRUE(at::equal(logits_of(*load()), logits_of(*tiny_llama())));
  EXPECT_THAT(log.lines, ElementsAre("warning: " + where() +
                                     "1 tensors were not used by LlamaForCausalLM:\n  model.layers.7.extra"));
}

TEST_F(Files, OfACausalLMGiveAClassifierWithAFreshHead) {
  LogLines log;
  const auto model = load<AutoModelForSequenceClassification>({.rngs = RandomKey(3)});
  EXPECT_THAT(log.lines,
              ElementsAre("warning: " + where() +
                              "LlamaForSequenceClassification initializes its head randomly, since the files do not "
                              "have it:\n  score.weight",
                          "warning: " + where() +
                              "1 tensors were not used by LlamaForSequenceClassification:\n  lm_head.weight"));
  EXPECT_EQ(model->params().at("score.weight").sizes(), at::IntArrayRef({2, 16}));
  EXPECT_GT(model->params().at("score.weight").abs().max().item<double>(), 0);
  EXPECT_TRUE(at::equal(model->params().at("model.norm.weight"), tiny_llama()->params().at("model.norm.weight")));
}

TEST_F(Files, OfACausalLMGiveItsBaseModelAndBack) {
  const auto base = load<AutoModel>();
  EXPECT_EQ(base->type_name(), "LlamaModel");
  EXPECT_TRUE(at::equal((*base)({.input_ids = tiny_ids()}).last_hidden_state,
                        (*tiny_llama())({.input_ids = tiny_ids()}).last_hidden_state));

  base->save_pretrained(directory_.path(), {.verbose = false});
  EXPECT_EQ(load<AutoModelForAnyTask>()->type_name(), "LlamaModel");
  LogLines log;
  EXPECT_TRUE(at::equal(load()->params().at("model.layers.1.mlp.up_proj.weight"),
                        base->params().at("layers.1.mlp.up_proj.weight")));
}

TEST_F(Files, WhatThisVersionCannotDoIsRefused) {
  EXPECT_THAT([&] { load({.platform = "pallas"}); },
              ThrowsMessage<NotSupportedError>(HasSubstr("platform \"pallas\"")));
  EXPECT_THAT([&] { load({.shard_fns = {{"a", [](const at::Tensor& t) { return t; }}}}); },
              ThrowsMessage<ConfigError>(HasSubstr("has no parameter \"a\".")));
  EXPECT_THAT(
      [&] { load({.platform = "pallas"}); },
      ThrowsMessage<NotSupportedError>("[from_pretrained] platform \"pallas\" is not yet supported: kernels are "
                                       "torch's and this library's own; leave it empty."));
  EXPECT_THAT([&] { load({.backend = "tpu"}); },
              ThrowsMessage<ConfigError>("[from_pretrained] backend must be cpu or gpu; got \"tpu\"."));
}

TEST_F(Files, AreSavedUnderAStepAndInTheDtypeThatIsAskedFor) {
  const auto model = load();
  model->save_pretrained(directory_ / "out", {.float_dtype = bfloat16, .step = 30, .verbose = false});
  const auto saved = AutoModelForCausalLM::from_pretrained((directory_ / "out/run-30").string(), {.verbose = false});
  EXPECT_EQ(saved->config().dtype, bfloat16);
  EXPECT_TRUE(
      at::equal(saved->params().at("lm_head.weight"), model->params().at("lm_head.weight").to(bfloat16).to(float32)));
}

TEST_F(Files, AreNotSavedWithAParameterOfAnotherDtypeWhenThatIsNotAllowed) {
  const auto model = load();
  model->merge_params({{"model.norm.weight", at::ones({16}, bfloat16)}});
  EXPECT_THAT([&] { model->save_pretrained(directory_ / "out", {.mismatch_allowed = false, .verbose = false}); },
              ThrowsMessage<ConfigError>(
                  "[save_pretrained] \"model.norm.weight\" is bfloat16, but the module stores float32."));
}

TEST(AutoModel, MakesRandomWeightsFromAConfig) {
  const auto model = AutoModelForCausalLM::from_config(tiny_config(), {.rngs = RandomKey(2)});
  EXPECT_TRUE(at::equal(logits_of(*model), logits_of(*tiny_llama({.rngs = RandomKey(2)}))));
}

TEST(TaskType, IsReadByName) {
  EXPECT_EQ(parse_task("causal-lm"), TaskType::CausalLM);
  EXPECT_EQ(parse_task("CAUSAL_LANGUAGE_MODEL"), TaskType::CausalLM);
  EXPECT_EQ(parse_task("auto-bind"), TaskType::AutoBind);
  for (const TaskType task :
       {TaskType::BaseModule, TaskType::CausalLM, TaskType::SequenceClassification, TaskType::SequenceToSequence,
        TaskType::SpeechSequenceToSequence, TaskType::MaskedLM, TaskType::TokenClassification,
        TaskType::QuestionAnswering, TaskType::Embedding, TaskType::VisionModule, TaskType::ImageClassification,
        TaskType::ZeroShotImageClassification, TaskType::ImageTextToText, TaskType::AudioClassification,
        TaskType::AutoBind})
    EXPECT_EQ(parse_task(task_name(task)), task);
  EXPECT_THAT([] { parse_task("vision"); },
              ThrowsMessage<ConfigError>("[TaskType] a task must be one of base-module, causal-lm, "
                                         "sequence-classification, sequence-to-sequence, "
                                         "speech-sequence-to-sequence, masked-lm, token-classification, "
                                         "question-answering, embedding, vision-module, image-classification, "
                                         "zero-shot-image-classification, image-text-to-text, "
                                         "audio-classification, auto-bind; got \"vision\"."));
}

TEST(AutoModel, SaysWhichTasksAModelHas) {
  Registry registry;
  registry.register_config<ToyConfig>();
  EXPECT_THAT([&] { registry.make_module(ToyConfig(), TaskType::CausalLM); },
              ThrowsMessage<NotSupportedError>("[AutoModel] \"toy\" has no class for causal-lm; it has none."));
  registry.register_config<LlamaConfig>();
  registry.register_module<LlamaModel>(TaskType::BaseModule);
  EXPECT_THAT(
      [&] { registry.make_module(tiny_config(), TaskType::CausalLM); },
      ThrowsMessage<NotSupportedError>("[AutoModel] \"llama\" has no class for causal-lm; it has base-module."));
  EXPECT_EQ(registry.make_module(tiny_config(), TaskType::AutoBind)->type_name(), "LlamaModel");
}

TEST(RegisterModule, RefusesASecondClassAndOneWithoutAConfig) {
  Registry registry;
  EXPECT_THAT([&] { registry.register_module<LlamaModel>(TaskType::BaseModule); },
              ThrowsMessage<ConfigError>(
                  "[register_module] model_type \"llama\" has no config yet; call register_config first."));
  registry.register_config<LlamaConfig>();
  registry.register_module<LlamaModel>(TaskType::BaseModule);
  EXPECT_THAT([&] { registry.register_module<LlamaModel>(TaskType::BaseModule); },
              ThrowsMessage<ConfigError>("[register_module] \"llama\" has a class for base-module already."));
}

}  // namespace
}  // namespace easydel
