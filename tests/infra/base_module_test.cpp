#include "easydel/infra/base_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/infra/config/config.h"
#include "easydel/infra/registry.h"
#include "easydel/layers/norm.h"
#include "easydel/models/phi3/model.h"
#include "tests/infra/tiny_llama.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::ThrowsMessage;

GraphState without(const GraphState& state, const std::vector<std::string>& paths) {
  GraphState rest;
  for (const auto& [path, tensor] : state) {
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) rest.set(path, tensor);
  }
  return rest;
}

bool same_weights(const BaseModule& a, const BaseModule& b) {
  for (const auto& [path, tensor] : a.params()) {
    if (!at::equal(tensor, b.params().at(path))) return false;
  }
  return a.params().paths() == b.params().paths();
}

struct BufferedConfig : Config<BufferedConfig> {
  static constexpr std::string_view kModelType = "buffered";
  BufferedConfig() {
    hidden_size = 2;
    num_attention_heads = 1;
    max_position_embeddings = 16;
    hidden_act = "silu";
  }
  void fields(FieldVisitor& v) override { v("hidden_size", hidden_size, "Width."); }
};

// A user's module with a table that no gradient reaches.
class BufferedModel : public BaseModule {
 public:
  using ConfigType = BufferedConfig;
  explicit BufferedModel(const BufferedConfig& c)
      : BaseModule(c),
        norm_(add<RMSNorm>("norm", c.hidden_size, 1e-6)),
        offset_(add_buffer("offset", at::zeros({c.hidden_size}))) {}
  at::Tensor& offset() const { return offset_; }
  ModelOutput forward(const PreparedInputs& inputs) const override {
    ModelOutput out;
    out.last_hidden_state = norm_(inputs.inputs_embeds) + offset_;
    return out;
  }

 private:
  const RMSNorm& norm_;
  at::Tensor& offset_;
};

TEST(BaseModule, SaysWhatItIs) {
  const auto model = tiny_llama({.precision = Precision::High});

  EXPECT_EQ(model->model_type(), "llama");
  EXPECT_EQ(model->model_task(), TaskType::CausalLM);
  EXPECT_EQ(model->base_model_prefix(), "model");
  EXPECT_EQ(model->get_torch_loader(), "AutoModelForCausalLM");
  EXPECT_EQ(model->config(), tiny_config());
  EXPECT_EQ(model->mesh().size(), 1);
  EXPECT_EQ(model->precision(), Precision::High);
  EXPECT_TRUE(model->can_generate());
  EXPECT_FALSE(model->base_model().can_generate());
  EXPECT_EQ(model->num_params(), model->params().numel());
}

TEST(BaseModule, RefusesAConfigThatIsWrong) {
  LlamaConfig config = tiny_config();
  config.num_key_value_heads = 3;
  EXPECT_THAT([&] { make_model<LlamaForCausalLM>(config); },
              ThrowsMessage<ConfigError>("[LlamaConfig] num_attention_heads must be a multiple of num_key_value_heads; "
                                         "got 4 and 3."));
}

TEST(SplitModule, AndMergeCopyNothingAndGiveTheSameModel) {
  const auto model = tiny_llama();
  const auto [definition, everything] = model->split_module();
  const auto [same_definition, params, other] = model->split_module_parts();

  const auto from_two = BaseModule::merge_module(definition, everything);
  const auto from_three = BaseModule::merge_module(same_definition, params, other);

  for (const auto& merged : {from_two, from_three}) {
    EXPECT_EQ(merged->type_name(), "LlamaForCausalLM");
    EXPECT_EQ(merged->config(), model->config());
    EXPECT_EQ(merged->params().paths(), model->params().paths());
    for (const auto& [path, tensor] : merged->params()) {
      EXPECT_EQ(tensor.data_ptr(), model->params().at(path).data_ptr()) << path;
    }
    EXPECT_TRUE(at::equal(logits_of(*merged), logits_of(*model)));
  }
}

TEST(SplitModule, KeepsTheBuffersOfACustomModule) {
  register_config<BufferedConfig>();
  register_module<BufferedModel>(TaskType::BaseModule);
  const auto model = make_model<BufferedModel>(BufferedConfig());
  model->offset().fill_(3);
  const ModelInputs inputs{.inputs_embeds = at::arange(8, at::kFloat).view({1, 4, 2})};

  const auto [graphdef, state, other] = model->split_module_parts();
  EXPECT_THAT(state.paths(), ElementsAre("norm.weight"));
  EXPECT_THAT(other.paths(), ElementsAre("offset"));
  const auto merged = BaseModule::merge_module(graphdef, state, other);
  EXPECT_TRUE(merged->graphother().at("offset").is_same(model->offset()));
  EXPECT_TRUE(at::equal((*merged)(inputs).last_hidden_state, (*model)(inputs).last_hidden_state));

  const auto [definition, everything] = model->split_module();
  EXPECT_THAT(everything.paths(), ElementsAre("norm.weight", "offset"));
  EXPECT_TRUE(BaseModule::merge_module(definition, everything)->graphother().at("offset").is_same(model->offset()));
}

TEST(SplitModule, HasATableOfTheParameters) {
  const GraphDef definition = tiny_llama({.param_dtype = bfloat16})->graphdef();

  ASSERT_EQ(definition.parameters->size(), 21U);
  EXPECT_EQ(definition.parameters->front().path, "model.embed_tokens.weight");
  EXPECT_THAT(definition.parameters->front().shape.shape, ElementsAre(29, 16));
  EXPECT_EQ(definition.parameters->front().shape.dtype, bfloat16);
  EXPECT_EQ(definition.options.param_dtype, bfloat16);
  EXPECT_EQ(definition.task, TaskType::CausalLM);
}

TEST(MergeModule, ListsAllThatIsMissing) {
  const auto model = tiny_llama();
  const GraphDef definition = model->graphdef();
  const GraphState state = without(model->graphstate(), {"lm_head.weight", "model.norm.weight"});
  EXPECT_THAT(
      [&] { BaseModule::merge_module(definition, state); },
      ThrowsMessage<ConfigError>("[merge_module] these parameters are missing: model.norm.weight, lm_head.weight."));
}

TEST(MergeModule, ListsAllThatIsUnknown) {
  const auto model = tiny_llama();
  const GraphDef definition = model->graphdef();
  GraphState state = model->graphstate();
  state.set("model.extra", at::zeros({1}));
  state.set("other", at::zeros({1}));
  EXPECT_THAT([&] { BaseModule::merge_module(definition, state); },
              ThrowsMessage<ConfigError>("[merge_module] LlamaForCausalLM has no model.extra, other."));
}

TEST(MergeModule, RefusesAnotherShape) {
  const auto model = tiny_llama();
  const GraphDef definition = model->graphdef();
  GraphState state = model->graphstate();
  state.set("model.norm.weight", at::zeros({17}));
  EXPECT_THAT([&] { BaseModule::merge_module(definition, state); },
              ThrowsMessage<ShapeError>("[merge_params] \"model.norm.weight\" is [16]; got [17]."));
}

TEST(MergeParams, BindsTheGivenTensors) {
  const auto model = tiny_llama();
  const auto other = tiny_llama({.rngs = RandomKey(1)});
  model->merge_params(other->split_params());

  EXPECT_EQ(model->params().at("lm_head.weight").data_ptr(), other->params().at("lm_head.weight").data_ptr());
  EXPECT_TRUE(at::equal(logits_of(*model), logits_of(*other)));
}

TEST(MergeParams, ChangesNothingWhenSomethingDoesNotFit) {
  const auto model = tiny_llama();
  const void* before = model->params().at("model.norm.weight").data_ptr();

  EXPECT_THAT(
      [&] { model->merge_params_dict({{"model.norm.weight", at::zeros({16})}, {"lm_head.weight", at::zeros({2})}}); },
      ThrowsMessage<ShapeError>("[merge_params] \"lm_head.weight\" is [29, 16]; got [2]."));
  EXPECT_THAT([&] { model->merge_params({{"model.norm.weight", at::zeros({16})}, {"none", at::zeros({2})}}); },
              ThrowsMessage<ConfigError>("[merge_params] LlamaForCausalLM has no none."));
  EXPECT_EQ(model->params().at("model.norm.weight").data_ptr(), before);
}

TEST(LazyInit, HoldsShapesAndNoMemory) {
  const auto model = lazy_init<LlamaForCausalLM>(LlamaConfig(), {.param_dtype = bfloat16});

  EXPECT_TRUE(model->is_lazy());
  EXPECT_EQ(model->num_params(), 6'738'415'616);  // Llama 2 7B
  EXPECT_EQ(model->params().nbytes(), 2 * model->num_params());
  for (const auto& [path, tensor] : model->params()) EXPECT_TRUE(tensor.is_meta()) << path;
}

TEST(LazyInit, HasNothingToRunOrToSave) {
  const auto model = lazy_init<LlamaForCausalLM>(tiny_config());
  EXPECT_THAT(
      [&] { (*model)({.input_ids = tiny_ids()}); },
      ThrowsMessage<Error>("[forward] LlamaForCausalLM has no weights yet: it was created by lazy_init. Load them "
                           "or call initialize."));
  EXPECT_THAT(
      [&] { model->save_pretrained("nowhere"); },
      ThrowsMessage<Error>("[save_pretrained] LlamaForCausalLM has no weights yet: it was created by lazy_init."));
}

TEST(Initialize, MakesALazyModelAWholeOne) {
  const auto model = lazy_init<LlamaForCausalLM>(tiny_config());
  model->initialize({.rngs = RandomKey(3)});
  EXPECT_TRUE(same_weights(*model, *tiny_llama({.rngs = RandomKey(3)})));
}

TEST(Initialize, DependsOnTheKeyAndThePathAlone) {
  const auto model = tiny_llama({.rngs = RandomKey(3)});
  const auto other = tiny_llama({.rngs = RandomKey(4)});
  LlamaConfig deeper = tiny_config();
  deeper.num_hidden_layers = 3;
  const auto deep = make_model<LlamaForCausalLM>(deeper, {.rngs = RandomKey(3)});
  const std::string path = "model.layers.1.self_attn.q_proj.weight";

  EXPECT_TRUE(same_weights(*model, *tiny_llama({.rngs = RandomKey(3)})));
  EXPECT_FALSE(at::equal(model->params().at(path), other->params().at(path)));
  EXPECT_TRUE(at::equal(model->params().at(path), deep->params().at(path)));
  EXPECT_FALSE(at::equal(model->params().at(path), model->params().at("model.layers.0.self_attn.q_proj.weight")));
  EXPECT_TRUE(at::equal(model->params().at("model.norm.weight"), at::ones({16})));
  EXPECT_NEAR(model->params().at("model.embed_tokens.weight").std().item<double>(), 0.3, 0.03);
}

TEST(ToDtype, CastsTheParametersAndLeavesTheComputation) {
  const auto model = tiny_llama();
  model->to_dtype(bfloat16);

  EXPECT_EQ(model->module_dtype(), bfloat16);
  EXPECT_EQ(model->param_dtype(), bfloat16);
  EXPECT_EQ(model->base_model().param_dtype(), bfloat16);
  EXPECT_EQ(model->dtype(), float32);
  EXPECT_EQ(logits_of(*model).scalar_type(), float32);
  for (const auto& [path, tensor] : model->params()) EXPECT_TRUE(tensor.requires_grad()) << path;
}

TEST(HalfAndFloat, ChangeWhatIsComputedInOnlyWhenAsked) {
  struct Case {
    bool change;
    DType after_half, after_float;
  };
  for (const auto& [change, after_half, after_float] : {Case{true, float16, float32}, Case{false, float32, float16}}) {
    const auto model = tiny_llama();
    model->half(change);
    EXPECT_EQ(model->module_dtype(), float16);
    EXPECT_EQ(model->dtype(), after_half);
    EXPECT_EQ(model->base_model().options().dtype, after_half);
    EXPECT_EQ(logits_of(*model).scalar_type(), after_half);

    const auto halved = tiny_llama({.dtype = float16, .param_dtype = float16});
    halved->float_(change);
    EXPECT_EQ(halved->module_dtype(), float32);
    EXPECT_EQ(halved->dtype(), after_float);
    EXPECT_EQ(logits_of(*halved).scalar_type(), after_float);
  }
}

TEST(Dtype, Bfloat16ComputesOnFloat32WeightsWhoseGradientsAreFloat32) {
  const auto model = tiny_llama({.dtype = bfloat16});
  const ModelOutput out = (*model)({.input_ids = tiny_ids(), .labels = tiny_ids(), .output_logits = true});
  out.loss.backward();

  EXPECT_EQ(out.logits.scalar_type(), bfloat16);
  EXPECT_EQ(out.loss.scalar_type(), float32);
  const auto exact = tiny_llama();
  (*exact)({.input_ids = tiny_ids(), .labels = tiny_ids()}).loss.backward();
  for (const auto& [path, tensor] : model->params()) {
    EXPECT_EQ(tensor.scalar_type(), float32) << path;
    ASSERT_TRUE(tensor.grad().defined()) << path;
    EXPECT_EQ(tensor.grad().scalar_type(), float32) << path;
    const at::Tensor expected = exact->params().at(path).grad();
    EXPECT_LT((tensor.grad() - expected).norm().item<double>(), 0.05 * expected.norm().item<double>()) << path;
  }
}

TEST(TiedEmbeddings, AreOneTensorWhoseGradientIsTheSumOfBoth) {
  LlamaConfig config = tiny_config();
  config.tie_word_embeddings = true;
  const auto tied = make_model<LlamaForCausalLM>(config);
  const auto untied = tiny_llama();
  const std::string embedding = "model.embed_tokens.weight";
  untied->merge_params({{"lm_head.weight", untied->params().at(embedding).detach().clone()}});
  const ModelInputs batch{.input_ids = tiny_ids(), .labels = tiny_ids()};
  (*tied)(batch).loss.backward();
  (*untied)(batch).loss.backward();

  EXPECT_FALSE(tied->params().contains("lm_head.weight"));
  EXPECT_THAT(tied->tied_parameters(), ElementsAre(Pair("lm_head.weight", embedding)));
  EXPECT_EQ(tied->to_torch().at("lm_head.weight").data_ptr(), tied->params().at(embedding).data_ptr());
  EXPECT_EQ(untied->num_params() - tied->num_params(), 29 * 16);
  const at::Tensor sum = untied->params().at(embedding).grad() + untied->params().at("lm_head.weight").grad();
  EXPECT_TRUE(at::allclose(tied->params().at(embedding).grad(), sum, 1e-4, 1e-6));
}

TEST(PureTransform, IsAFunctionOfParametersAndInputs) {
  const auto model = tiny_llama();
  const PureTransform pure = model->pure_transform_fn();
  GraphState doubled;
  for (const auto& [path, tensor] : model->params()) doubled.set(path, tensor * 2.0);  // no leaf: gradients go through

  EXPECT_TRUE(at::equal(pure(model->params(), {.input_ids = tiny_ids()}).logits, logits_of(*model)));
  const ModelOutput out = pure(doubled, {.input_ids = tiny_ids(), .labels = tiny_ids()});
  out.loss.backward();

  const auto expected = BaseModule::merge_module(model->graphdef(), [&] {
    GraphState leaves;
    for (const auto& [path, tensor] : doubled) leaves.set(path, tensor.detach().clone());
    return leaves;
  }());
  (*expected)({.input_ids = tiny_ids(), .labels = tiny_ids()}).loss.backward();
  for (const auto& [path, tensor] : model->params()) {
    EXPECT_TRUE(at::allclose(tensor.grad(), 2 * expected->params().at(path).grad(), 1e-4, 1e-6)) << path;
  }
}

TEST(PureTransform, IsAlsoTheConversionOfAStateDict) {
  const auto model = tiny_llama({.rngs = RandomKey(5)});
  const auto other = tiny_llama();
  TensorMap state;
  for (const auto& [path, tensor] : model->to_torch()) state.set(path, tensor.to(float64));

  for (const GraphState& converted : {other->pure_transform_fn()(state), other->transform_fn(state)}) {
    EXPECT_EQ(converted.paths(), model->params().paths());
    for (const auto& [path, tensor] : converted) EXPECT_TRUE(at::equal(tensor, model->params().at(path))) << path;
  }
  EXPECT_FALSE(same_weights(*model, *other));
}

TEST(PureTransform, LeavesTheStateDictAlone) {
  const TensorMap state = tiny_llama()->to_torch();
  tiny_llama()->transform_fn(state);
  for (const auto& [path, tensor] : state) EXPECT_FALSE(tensor.requires_grad()) << path;
}

// 2 layers of q 2*16*16, k and v 2*16*8 each, o 2*16*16, three of 2*16*24, and 4*16 for each of 4 keys on average; the
// head is 2*16*29.
TEST(Flops, OfALlamaAreWhatOneCountsByHand) {
  const auto model = lazy_init<LlamaForCausalLM>(tiny_config());
  EXPECT_EQ(model->flops_per_token(1, 7), 2 * (512 + 256 + 256 + 512 + 3 * 768 + 64 * 4) + 928);
  EXPECT_EQ(model->flop(3, 7), 9120 * 21);
  EXPECT_EQ(model->flops_per_token(), 2 * (3840 + 64) + 928);
  EXPECT_THAT([&] { model->flops_per_token(1, 0); },
              ThrowsMessage<ConfigError>("[flops_per_token] sequence_length must be at least 1; got 0."));
}

TEST(Flops, OfASlidingWindowCountTheKeysThatAreSeen) {
  Phi3Config config;
  config.vocab_size = 29;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 4;
  config.pad_token_id = 0;
  const double all = lazy_init<Phi3ForCausalLM>(config)->flop(1, 8);
  config.sliding_window = 3;
  const double some = lazy_init<Phi3ForCausalLM>(config)->flop(1, 8);
  EXPECT_EQ(all - some, 64 * (36 - (1 + 2 + 6 * 3)));
}

TEST(ParsePrecision, KnowsJaxsWords) {
  EXPECT_EQ(parse_precision(""), Precision::Unset);
  EXPECT_EQ(parse_precision("fastest"), Precision::Default);
  EXPECT_EQ(parse_precision("high"), Precision::High);
  EXPECT_EQ(parse_precision("highest"), Precision::Highest);
  EXPECT_THAT([] { parse_precision("low"); },
              ThrowsMessage<ConfigError>("[precision] one of default, fastest, high, highest is needed; got \"low\"."));
}

TEST(Precision, HoldsForTheForwardOfTheModuleAlone) {
  const auto before = at::globalContext().float32MatmulPrecision();
  const auto model = tiny_llama({.precision = Precision::High});
  logits_of(*model);
  EXPECT_EQ(at::globalContext().float32MatmulPrecision(), before);
}

}  // namespace
}  // namespace easydel
