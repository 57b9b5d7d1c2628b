// Names of EasyDeL's documents that no other test uses, each with what it does. docs/from-easydel.md points here.
#include <easydel/easydel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "tests/infra/tiny_llama.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

namespace ed = easydel;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class LogLines {
 public:
  LogLines() {
    log::set_sink([this](log::Level, const std::string& line) { lines.push_back(line); });
  }
  ~LogLines() { log::set_sink({}); }
  std::vector<std::string> lines;
};

TEST(SeedNames, OneHeaderAndOneNamespaceHaveAllOfIt) {
  ed::LlamaConfig config = tiny_config();
  const auto model = ed::make_model<ed::LlamaForCausalLM>(config);
  const ed::BaseModule& any = *model;
  EXPECT_EQ(any.config().hidden_size, 16);
  EXPECT_EQ(any.num_params(), [&] {
    int64_t sum = 0;
    for (const auto& [path, tensor] : any.params()) sum += tensor.numel();
    return sum;
  }());
}

TEST(SeedNames, OneStructServesTheOutputsOfAllTasks) {
  static_assert(std::is_same_v<CausalLMOutput, ModelOutput> && std::is_same_v<SequenceClassifierOutput, ModelOutput>);
  static_assert(std::is_same_v<MoeModelOutput, ModelOutput> && std::is_same_v<MoeCausalLMOutput, ModelOutput>);
  const CausalLMOutput out = (*tiny_llama())({.input_ids = tiny_ids(), .labels = tiny_ids()});
  EXPECT_EQ(out.loss.dim(), 0);
}

TEST(SeedNames, AModelClassNamesTheClassOfItsConfig) {
  static_assert(std::is_same_v<LlamaForCausalLM::ConfigType, LlamaConfig>);
  static_assert(std::is_same_v<MistralForCausalLM::ConfigType, MistralConfig>);
  static_assert(std::is_same_v<CohereForCausalLM::ConfigType, CohereConfig>);
  static_assert(std::is_same_v<DeepseekV3ForCausalLM::ConfigType, DeepseekV3Config>);
  EXPECT_EQ(LlamaForCausalLM::ConfigType().model_type(), "llama");
  EXPECT_EQ(DeepseekV3Config().model_type(), "deepseek_v3");
}

TEST(SeedNames, ParametersAreAMapAndATableOfShapes) {
  const auto model = tiny_llama();
  const TensorMap params = model->split_params_dict();
  EXPECT_EQ(params.paths(), model->params().paths());
  EXPECT_EQ(model->split_params().paths(), params.paths());
  const std::vector<ParameterInfo> table = model->graphtree_params_shape();
  ASSERT_EQ(table.size(), params.size());
  for (const ParameterInfo& info : table) {
    EXPECT_EQ(params.at(info.path).sizes(), at::IntArrayRef(info.shape.shape)) << info.path;
    EXPECT_EQ(params.at(info.path).scalar_type(), info.shape.dtype) << info.path;
  }
  model->merge_params_dict({{"model.norm.weight", at::full({16}, 2.0)}});
  EXPECT_EQ(model->params().at("model.norm.weight").sum().item<double>(), 32);
}

TEST(SeedNames, StaticArgumentsAreThoseThatChangeTheComputation) {
  EXPECT_THAT(BaseModule::get_static_arguments(), Contains("output_attentions"));
  EXPECT_THAT(BaseModule::get_static_arguments(), Contains("mask_info"));
}

TEST(SeedNames, AQuantizationThatThereIsNotIsRefusedByNameWithThoseThatThereAre) {
  EXPECT_THAT([] { tiny_llama()->quantize({.method = "aqt"}); },
              ThrowsMessage<ConfigError>(testing::AllOf(HasSubstr("aqt"), HasSubstr("nf4"), HasSubstr("8bit"))));
}

TEST(SeedNames, AQuantizationConfigIsWhatQuantizeTakes) {
  QuantizationConfig config{.method = "8bit", .pattern = "q_proj", .quantize_tensors = false};
  const auto model = tiny_llama();
  model->quantize(config);
  EXPECT_FALSE(model->is_quantized());
  config.quantize_tensors = true;
  config.verbose = true;
  LogLines log;
  model->quantize(config);
  EXPECT_TRUE(model->is_quantized());
  EXPECT_EQ(log.lines.size(), 1u);
}

class Loading : public testing::Test {
 protected:
  Loading() { tiny_llama()->save_pretrained(directory_ / "model", {.verbose = false}); }
  std::shared_ptr<BaseModule> load(LoadOptions options) {
    options.verbose = false;
    return AutoModelForCausalLM::from_pretrained((directory_ / "model").string(), options);
  }
  TemporaryDirectory directory_;
};

TEST_F(Loading, TakesADeviceABackendAndAPlatform) {
  for (const LoadOptions& options :
       std::vector<LoadOptions>{{.device = at::kCPU}, {.backend = "cpu"}, {.platform = "torch"}}) {
    const auto model = load(options);
    EXPECT_TRUE(model->params().at("lm_head.weight").device().is_cpu());
    EXPECT_TRUE(at::equal(logits_of(*model), logits_of(*tiny_llama())));
  }
}

TEST_F(Loading, CountsParametersAloudAndSetsTheConfigsAttention) {
  LogLines log;
  const auto model = load({.sharding = {.shard_attention_computation = false}, .verbose_params = true});
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("LlamaForCausalLM: ")));
  EXPECT_FALSE(model->config().sharding.shard_attention_computation);
}

TEST_F(Loading, PacksThePatternsLayersAlone) {
  const auto model = load({.quantization_config = QuantizationConfig{.pattern = "q_proj"}});
  auto expected = tiny_llama();
  expected->quantize({.method = "8bit", .pattern = "q_proj"});
  EXPECT_TRUE(at::equal(logits_of(*model), logits_of(*expected)));
  const QuantizationConfig kernels{.bit_targeted_params = {"kernel"}};
  EXPECT_TRUE(load({.quantization_config = kernels, .load_in_8bit = true})->is_quantized());
}

TEST_F(Loading, OfAStateTakesTheSameArguments) {
  tiny_llama()->to_state(optim::sgd(0.1)).save_state(directory_ / "state", {.verbose = false});
  const auto load_state = [&](LoadOptions options, TaskType task = TaskType::AutoBind) {
    options.verbose = false;
    return State::load_state(directory_ / "state", options, optim::sgd(0.1), task);
  };
  EXPECT_EQ(load_state({.dtype = bfloat16, .param_dtype = float16, .precision = "high"}).model()->precision(),
            Precision::High);
  EXPECT_EQ(load_state({.device = at::kCPU, .param_dtype = float16}).model()->module_dtype(), float16);
  EXPECT_EQ(load_state({.backend = "cpu", .platform = "torch", .config_kwargs = Json::object({{"use_cache", false}})})
                .graphdef.config->use_cache,
            false);
  EXPECT_EQ(load_state({}, TaskType::BaseModule).model()->type_name(), "LlamaModel");
  EXPECT_TRUE(load_state({.quantization_config = QuantizationConfig{.pattern = "q_proj"}}).model()->is_quantized());
  EXPECT_THAT([&] { load_state({.quantization_config = QuantizationConfig{.method = "nf4", .group_size = 24}}); },
              ThrowsMessage<ConfigError>(HasSubstr("must be a multiple of 32; got 24")));
  const QuantizationConfig checked{.quantize_tensors = false};
  EXPECT_FALSE(load_state({.quantization_config = checked}).model()->is_quantized());
  const auto not_split = load_state({.sharding = {.shard_attention_computation = false}});
  EXPECT_FALSE(not_split.graphdef.config->sharding.shard_attention_computation);
  const auto twice = load_state({.shard_fns = {{"lm_head.weight", [](const at::Tensor& t) { return t * 2; }}}});
  EXPECT_TRUE(at::equal(twice.graphstate.at("lm_head.weight"), 2 * tiny_llama()->params().at("lm_head.weight")));
}

TEST(SeedNames, AStateIsSavedAsItsArgumentsSay) {
  const TemporaryDirectory directory;
  const State state = tiny_llama()->to_state(optim::adamw(1e-3));
  state.save_state(directory / "none", {.verbose = false, .enable = false});
  EXPECT_FALSE(std::filesystem::exists(directory / "none"));
  state.save_state(directory / "half", {.float_dtype = float16, .verbose = false, .save_optimizer = false});
  EXPECT_FALSE(std::filesystem::exists(directory / "half/optimizer.safetensors"));
  EXPECT_EQ(Json::parse_file((directory / "half/config.json").string()).at("dtype"), Json("float16"));
  EXPECT_TRUE(std::filesystem::exists(directory / "half/state.json"));
  auto odd = tiny_llama();
  odd->merge_params({{"model.norm.weight", at::ones({16}, bfloat16)}});
  EXPECT_THAT([&] { odd->to_state().save_state(directory / "odd", {.verbose = false, .mismatch_allowed = false}); },
              ThrowsMessage<ConfigError>(HasSubstr("\"model.norm.weight\" is bfloat16")));
}

TEST(SeedNames, GenerationDoesNotDependOnATraceAndCachesAreMadeBySize) {
  const auto model = tiny_llama();
  GenerateOptions options{.generation_config = {.max_new_tokens = 4}};
  const at::Tensor traced = model->generate(tiny_ids(), options).sequences;
  options.trace = false;
  EXPECT_TRUE(at::equal(model->generate(tiny_ids(), options).sequences, traced));

  const auto dense = model->init_operations_cache({.batch_size = 2, .max_length = 9, .starts = at::tensor({0, 1})});
  EXPECT_EQ(dense->max_length(), 9);
  EXPECT_FALSE(dense->is_ragged());
  const auto paged = model->init_operations_cache({.max_length = 16, .page_size = 4, .hbm_utilization = 0.001});
  EXPECT_TRUE(paged->is_ragged());
  const RaggedPagesMetadata more = model->create_paged_metadata(0.002, 4, 16);
  const auto pages = model->init_ragged_pages(4, 0.001, 16);
  EXPECT_EQ(pages->metadata().max_model_length, 16);
  EXPECT_NEAR(static_cast<double>(more.num_pages) / static_cast<double>(pages->metadata().num_pages), 2.0, 0.5);
  EXPECT_EQ(model->create_cache_metadata(2, 9, 7).pad_token_id, 7);
  EXPECT_EQ(model->init_cache(2, 9, {}, 7)->metadata().pad_token_id, 7);
}

TEST(SeedNames, InputsOfGenerationKnowWhereRowsBeginAndTheirTypes) {
  const auto model = tiny_llama();
  at::Tensor ids = tiny_ids(2, 5).clone();
  ids[0].narrow(0, 0, 2).fill_(28);
  const at::Tensor mask = ids.ne(28).to(at::kLong);
  const ModelInputs by_pad = model->prepare_inputs_for_generation(ids, 9, /*pad_token_id=*/28);
  const ModelInputs by_start = model->prepare_inputs_for_generation(ids, 9, {}, at::tensor({2, 0}));
  EXPECT_TRUE(at::equal(by_pad.attention_mask, mask));
  EXPECT_TRUE(at::equal(by_start.attention_mask, mask));
  EXPECT_EQ(by_pad.past_key_values->max_length(), 9);
  const at::Tensor types = at::ones_like(ids);
  ModelInputs typed = model->prepare_inputs_for_generation(ids, 9, {}, {}, mask, types);
  EXPECT_TRUE(at::equal(typed.token_type_ids, types));
  model->update_inputs_for_generation((*model)(typed), typed, at::tensor({1, 2}));
  EXPECT_EQ(typed.token_type_ids.sizes(), at::IntArrayRef({2, 1}));
}

TEST(SeedNames, AdaptersAreDrawnFromTheirKeyAndCountedAloud) {
  LogLines log;
  const auto a_of = [](uint64_t seed, bool verbose) {
    const auto model = tiny_llama();
    model->apply_lora_to_layers(/*lora_rank=*/3, /*lora_alpha=*/6, /*lora_pattern=*/"q_proj",
                                {.rngs = RandomKey(seed), .verbose = verbose});
    return model->split_lora_params().second.begin()->second.detach().clone();
  };
  EXPECT_EQ(a_of(1, true).size(0), 3);
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("2 layers have the adapter")));
  EXPECT_TRUE(at::equal(a_of(1, false), a_of(1, false)));
  EXPECT_FALSE(at::equal(a_of(1, false), a_of(2, false)));
  const auto model = tiny_llama();
  model->apply_lora_to_layers(3, 6, "q_proj");
  model->unwrap_lora_to_layers(/*verbose=*/true);
  EXPECT_THAT(log.lines.back(), HasSubstr("2 layers now have their adapters merged"));
}

TEST(SeedNames, SettingsOfAttentionReachTheComputation) {
  LlamaConfig config = tiny_config();
  const auto with = [&](const Json& changes) {
    LlamaConfig changed = config;
    changed.update(changes);
    return make_model<LlamaForCausalLM>(changed);
  };
  const at::Tensor plain = logits_of(*tiny_llama());
  EXPECT_TRUE(is_close_in_float32(logits_of(*with(Json::object({{"attn_mechanism", "vanilla"}}))), plain));
  EXPECT_THAT([&] { logits_of(*with(Json::object({{"attn_mechanism", "cudnn"}}))); },
              ThrowsMessage<Error>(HasSubstr("cudnn")));
  const at::Tensor rough = logits_of(*with(Json::object({{"attn_dtype", "bfloat16"}})));
  EXPECT_FALSE(at::equal(rough, plain));
  EXPECT_TRUE(at::allclose(rough, plain, 0.1, 0.1));
  EXPECT_EQ(with(Json::object({{"kvdtype", "float16"}}))->create_cache_metadata(1, 4).dtype, float16);
  const Json blocks = Json::object({{"attn_mechanism", "blockwise"}, {"blocksize_q", 2}, {"blocksize_k", 3}});
  EXPECT_TRUE(is_close_in_float32(logits_of(*with(blocks)), plain));
}

TEST(SeedNames, AConfigIsWrittenToAFileOfAnyName) {
  const TemporaryDirectory directory;
  tiny_config().to_json_file(directory / "mine.json");
  EXPECT_EQ(LlamaConfig::from_pretrained((directory / "mine.json").string()).to_dict(), tiny_config().to_dict());
}

TEST(SeedNames, AClassifierIsLoadedByItsAutoClass) {
  const TemporaryDirectory directory;
  LlamaConfig config = tiny_config();
  config.set_num_labels(3);
  config.pad_token_id = 0;
  const auto model = make_model<LlamaForSequenceClassification>(config);
  model->save_pretrained(directory.path(), {.verbose = false});
  const auto loaded = AutoModelForSequenceClassification::from_pretrained(directory.path(), {.verbose = false});
  EXPECT_EQ(loaded->type_name(), "LlamaForSequenceClassification");
  EXPECT_TRUE(at::equal(logits_of(*loaded), logits_of(*model)));
}

TEST(SeedNames, FilesAreSplitAtTheSizeThatIsAskedFor) {
  const TemporaryDirectory directory;
  tiny_llama()->save_pretrained(directory.path(), {.max_shard_size = "6KB", .verbose = false});
  EXPECT_TRUE(std::filesystem::exists(directory / "model.safetensors.index.json"));
  const auto loaded = AutoModelForCausalLM::from_pretrained(directory.path(), {.verbose = false});
  EXPECT_TRUE(at::equal(logits_of(*loaded), logits_of(*tiny_llama())));
}

}  // namespace
}  // namespace easydel
