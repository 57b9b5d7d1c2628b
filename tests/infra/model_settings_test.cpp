// Settings of a config that a model acts on, or says that it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/config/config_notes.h"
#include "easydel/models/models.h"
#include "easydel/quantization/quantize.h"
#include "tests/infra/tiny_llama.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class ModelFiles : public testing::Test {
 protected:
  ModelFiles() { tiny_llama()->save_pretrained(directory_.path(), {.verbose = false}); }
  std::string path() const { return directory_.path().string(); }
  void set(const char* key, const Json& value) {
    Json config = Json::parse_file((directory_ / "config.json").string());
    config[key] = value;
    write_file_atomically(directory_ / "config.json", config.dump());
  }
  TemporaryDirectory directory_;
};

TEST_F(ModelFiles, AreReadByTheClassOfTheirFamily) {
  const std::shared_ptr<LlamaForCausalLM> model = LlamaForCausalLM::from_pretrained(path(), {.verbose = false});
  EXPECT_TRUE(at::equal(logits_of(*model), logits_of(*tiny_llama())));
  const std::shared_ptr<LlamaModel> base = LlamaModel::from_pretrained(path(), {.verbose = false});
  EXPECT_EQ(base->type_name(), "LlamaModel");
  EXPECT_EQ(LlamaForSequenceClassification::from_pretrained(path(), {.verbose = false})->model_task(),
            TaskType::SequenceClassification);
  EXPECT_EQ(model->config().name_or_path, path());
}

TEST_F(ModelFiles, OfAnotherFamilyAreRefusedByName) {
  EXPECT_THAT([&] { MistralForCausalLM::from_pretrained(path()); },
              ThrowsMessage<ConfigError>(concat("[MistralForCausalLM] ", path(),
                                                "/config.json must be of model_type \"mistral\"; got \"llama\". "
                                                "AutoModelForCausalLM and its like pick the class.")));
}

TEST_F(ModelFiles, AreNamedAsTheyWereAskedFor) {
  EXPECT_EQ(AutoModelForCausalLM::from_pretrained(path(), {.verbose = false})->config().name_or_path, path());
}

TEST_F(ModelFiles, ArePackedAsEasyDeLsConfigAsks) {
  LlamaConfig config = tiny_config();
  config.hidden_size = 64;
  const auto dense = make_model<LlamaForCausalLM>(config);
  dense->save_pretrained(directory_.path(), {.verbose = false});
  set("quantization_config", Json::object({{"dtype", "nf4"}, {"group_size", 32}, {"pattern", "q_proj"}}));
  const auto packed = AutoModelForCausalLM::from_pretrained(path(), {.verbose = false});
  EXPECT_TRUE(packed->is_quantized());
  EXPECT_FALSE(at::equal(logits_of(*packed), logits_of(*dense)));
  dense->quantize({.method = "nf4", .group_size = 32, .pattern = "q_proj"});
  EXPECT_TRUE(at::equal(logits_of(*packed), logits_of(*dense)));
  const LoadOptions checked{.quantization_config = QuantizeOptions{.quantize_tensors = false}, .verbose = false};
  EXPECT_FALSE(AutoModelForCausalLM::from_pretrained(path(), checked)->is_quantized());
}

TEST_F(ModelFiles, WithAQuantizationThatIsNoneOfOursAreRefusedByName) {
  const std::string where = concat("[", path(), "/model.safetensors] quantization_config");
  set("quantization_config", Json::object({{"dtype", "int3"}}));
  EXPECT_THAT([&] { AutoModelForCausalLM::from_pretrained(path(), {.verbose = false}); },
              ThrowsMessage<ConfigError>(testing::HasSubstr("unknown method \"int3\"; known: 8bit, nf4, int4, ")));
  set("quantization_config", Json::object({{"dtype", "nf4"}, {"jax_native", true}}));
  EXPECT_THAT([&] { AutoModelForCausalLM::from_pretrained(path(), {.verbose = false}); },
              ThrowsMessage<ConfigError>(where + ".jax_native is not supported; known: dtype, group_size, pattern, "
                                                 "double_quant, bit_targeted_params."));
  set("quantization_config", Json::object({{"group_size", 64}}));
  EXPECT_THAT(
      [&] { AutoModelForCausalLM::from_pretrained(path(), {.verbose = false}); },
      ThrowsMessage<ConfigError>(where + " must have a quant_method (Hugging Face's form) or a dtype (EasyDeL's); "
                                         "got {\"group_size\": 64}."));
}

TEST_F(ModelFiles, WithoutFromTorchMustBeSafetensors) {
  EXPECT_TRUE(
      at::equal(logits_of(*AutoModelForCausalLM::from_pretrained(path(), {.from_torch = false, .verbose = false})),
                logits_of(*tiny_llama())));
}

TEST_F(ModelFiles, WithTheNameOfAnAttentionOfEasyDeLsAreReadAndComputeTheSame) {
  for (const char* name : {"autoregressive_decodeattn", "blocksparse", "cuda_flash_attn2", "paged_flash_attention",
                           "ragged_page_attention_v2", "ragged_page_attention_v3", "splash", "unified_attention"}) {
    set("attn_mechanism", name);
    const auto model = AutoModelForCausalLM::from_pretrained(path(), {.verbose = false});
    EXPECT_TRUE(is_close_in_float32(logits_of(*model), logits_of(*tiny_llama()))) << name;
    EXPECT_THAT(config_notes(model->config()),
                ElementsAre(HasSubstr(concat("attn_mechanism \"", name, "\" is computed as"))));
    EXPECT_EQ(model->config().to_dict().at("attn_mechanism"), Json(name));  // written as it was
  }
  set("attn_mechanism", "telepathy");
  EXPECT_THAT([&] { AutoModelForCausalLM::from_pretrained(path()); },
              ThrowsMessage<ConfigError>(HasSubstr("attn_mechanism must be one of auto, blockwise")));
}

TEST(ConfigNotes, NameEverySettingThatChangesNothing) {
  LlamaConfig config = tiny_config();
  EXPECT_THAT(config_notes(config), IsEmpty());
  config.attention.decode_mechanism = "ring";
  config.attention.softmax_dtype = bfloat16;
  config.attention.blocksize_b = 2;
  config.memory.use_scan_mlp = true;
  config.sharding.use_sharded_kv_caching = true;
  EXPECT_THAT(
      config_notes(config),
      ElementsAre(
          "[LlamaConfig] decode_attn_mechanism \"ring\" has no effect: the kernel for a cache is chosen automatically.",
          "[LlamaConfig] attn_softmax_dtype bfloat16 has no effect: the softmax is float32 or better.",
          "[LlamaConfig] blocksize_b 2 has no effect: rows are distributed over threads.",
          "[LlamaConfig] use_scan_mlp has no effect: use gradient_checkpointing to save memory.",
          "[LlamaConfig] use_sharded_kv_caching has no effect: the cache is split over the sequence whenever the mesh "
          "splits the sequence."));
}

TEST(ForgetfulMask, HidesAShareOfThePastInTrainingAlone) {
  LlamaConfig config = tiny_config();
  config.attention.fcm_min_ratio = config.attention.fcm_max_ratio = 0.5;
  const auto model = make_model<LlamaForCausalLM>(config);
  ModelInputs inputs{.input_ids = tiny_ids()};
  EXPECT_TRUE(at::equal(logits_of(*model, inputs), logits_of(*tiny_llama())));
  inputs.dropout_key = RandomKey(3);
  const at::Tensor training = logits_of(*model, inputs);
  EXPECT_FALSE(at::allclose(training, logits_of(*tiny_llama())));
  EXPECT_TRUE(at::equal(training, logits_of(*model, inputs)));
  // It is the mask of the config, and the causal rule beside it.
  MaskInfo mask;
  mask.explicit_mask = config.get_fcm_mask(2, 7, false, RandomKey(3).fold("fcm"));
  EXPECT_TRUE(is_close_in_float32(training, logits_of(*tiny_llama(), {.input_ids = tiny_ids(), .mask_info = mask})));
}

TEST(MaskOfACall, NarrowsWhatTheLayersSee) {
  const auto with = [](const MaskInfo& mask) {
    return logits_of(*tiny_llama(), {.input_ids = tiny_ids(), .mask_info = mask});
  };
  const at::Tensor places = at::arange(7);
  const at::Tensor back = places.unsqueeze(1) - places.unsqueeze(0);
  const at::Tensor band = back.ge(0).logical_and(back.lt(3)).view({1, 1, 7, 7});
  EXPECT_TRUE(is_close_in_float32(with({.sliding_window = 3}), with({.explicit_mask = band})));
  EXPECT_FALSE(is_close_in_float32(with({.sliding_window = 3}), with({})));
}

TEST(PrepareInputs, TakesAMaskOfRulesThatHoldsForTokensToCome) {
  const auto model = tiny_llama();
  const at::Tensor ids = tiny_ids(2, 6);
  const at::Tensor padding = at::tensor({0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, at::kLong).view({2, 6});
  ModelInputs by_rule =
      model->prepare_inputs_for_generation(ids, 12, {}, {}, {}, {}, MaskInfo{.padding_mask = padding});
  ModelInputs by_mask = model->prepare_inputs_for_generation(ids, 12, {}, {}, padding);
  for (int step = 0; step < 4; ++step) {
    const ModelOutput a = (*model)(by_rule), b = (*model)(by_mask);
    ASSERT_TRUE(is_close_in_float32(a.logits.select(1, -1), b.logits.select(1, -1))) << step;
    const at::Tensor next = b.logits.select(1, -1).argmax(-1);
    model->update_inputs_for_generation(a, by_rule, next);
    model->update_inputs_for_generation(b, by_mask, next);
  }
  // Another mask gives other logits: the argument acts.
  const auto last = [&](const std::optional<MaskInfo>& mask) {
    return (*model)(model->prepare_inputs_for_generation(ids, 12, {}, {}, {}, {}, mask)).logits.select(1, -1);
  };
  EXPECT_FALSE(at::allclose(last(MaskInfo{.sliding_window = 2}), last(std::nullopt)));
  EXPECT_THAT(
      [&] { last(MaskInfo{.explicit_mask = at::ones({1, 1, 6, 6}, at::kBool)}); },
      ThrowsMessage<NotSupportedError>(HasSubstr("mask_info must consist of rules that apply to future tokens")));
}

}  // namespace
}  // namespace easydel
