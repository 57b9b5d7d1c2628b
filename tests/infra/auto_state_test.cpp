// A state by the name of its model's files, for each task: it steps, and comes back from its files as it was.
#include "easydel/infra/state/auto_state.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/optim/optimizers.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kText =
    R"("vocab_size": 29, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
       "max_position_embeddings": 32, "pad_token_id": 0)";
constexpr const char* kSight =
    R"("hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 8,
       "patch_size": 4)";
constexpr const char* kWhisper =
    R"({"model_type": "whisper", "vocab_size": 29, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
        "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
        "num_mel_bins": 4, "max_source_positions": 5, "max_target_positions": 12, "pad_token_id": 0,
        "eos_token_id": 1, "decoder_start_token_id": 2})";

std::string text_config(const std::string& model_type) {
  return concat("{\"model_type\": \"", model_type, "\", ", kText, "}");
}
std::string towers() {
  return concat("{\"model_type\": \"clip\", \"projection_dim\": 8, \"text_config\": {", kText,
                ", \"eos_token_id\": 28}, \"vision_config\": {", kSight, "}}");
}

at::Tensor ids() { return at::arange(6, at::kLong).add(23).view({2, 3}); }
ModelInputs texts() { return {.input_ids = ids()}; }
ModelInputs images() {
  ModelInputs inputs;
  inputs.pixel_values = at::linspace(-1, 1, 2 * 3 * 8 * 8).view({2, 3, 8, 8});
  return inputs;
}
ModelInputs both() {
  ModelInputs inputs = images();
  inputs.input_ids = ids();
  return inputs;
}
ModelInputs sounds() {
  ModelInputs inputs;
  inputs.input_features = at::linspace(-1, 1, 2 * 4 * 10).view({2, 4, 10});
  return inputs;
}
ModelInputs with_decoder(ModelInputs inputs) {
  inputs.decoder_input_ids = ids();
  return inputs;
}

void expect_same(const State& got, const State& want) {
  EXPECT_EQ(got.step, want.step);
  ASSERT_EQ(got.graphstate.paths(), want.graphstate.paths());
  for (const auto& [path, tensor] : want.graphstate) EXPECT_TRUE(at::equal(got.graphstate.at(path), tensor)) << path;
  ASSERT_TRUE(got.opt_state.has_value());
  const auto leaves = want.opt_state->leaves(), others = got.opt_state->leaves();
  ASSERT_EQ(others.size(), leaves.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_EQ(others[i].name, leaves[i].name);
    EXPECT_TRUE(at::equal(others[i].leaf->value, leaves[i].leaf->value)) << leaves[i].name;
  }
}

template <class Auto>
void steps_and_comes_back(const std::string& config, const std::string& type_name, const ModelInputs& inputs) {
  SCOPED_TRACE(type_name);
  const TemporaryDirectory directory;
  const std::string model = (directory / "model").string(), saved = (directory / "state").string();
  const auto made = AutoConfig::from_dict(Json::parse(config));
  Auto::from_config(*made, {.rngs = RandomKey(3)}).model()->save_pretrained(model, {.verbose = false});

  State state = Auto::from_pretrained(model, {.verbose = false}, optim::adamw(1e-5));
  EXPECT_EQ(state.model()->type_name(), type_name);
  EXPECT_EQ(state.step, 0);
  const auto loss_of = [&](const BaseModule& module) {
    const ModelOutput out = module(inputs);
    return (out.logits.defined()             ? out.logits
            : out.logits_per_image.defined() ? out.logits_per_image
                                             : out.last_hidden_state)
        .square()
        .sum();
  };
  const auto [loss, grads] = value_and_grad(state, loss_of);
  state = state.apply_gradients(grads);
  EXPECT_LT(loss_of(*state.model()).template item<double>(), loss.template item<double>());
  state.save_state(saved, {.verbose = false});
  const State again = Auto::from_pretrained(saved, {.verbose = false}, optim::adamw(1e-5));
  EXPECT_EQ(again.model()->type_name(), type_name);
  expect_same(again, state);
}

TEST(AutoState, OfEachTaskStepsAndComesBackFromItsFiles) {
  const std::string t5 =
      R"({"model_type": "t5", "vocab_size": 29, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2,
          "decoder_start_token_id": 0})";
  const std::string llava =
      concat(R"({"model_type": "llava", "image_token_index": 5, "text_config": {"model_type": "llama", )", kText,
             R"(}, "vision_config": {"model_type": "clip_vision_model", )", kSight, "}}");
  steps_and_comes_back<AutoState>(text_config("llama"), "LlamaModel", texts());
  steps_and_comes_back<AutoStateForCausalLM>(text_config("llama"), "LlamaForCausalLM", texts());
  steps_and_comes_back<AutoStateForSequenceClassification>(text_config("llama"), "LlamaForSequenceClassification",
                                                           texts());
  steps_and_comes_back<AutoStateForSeq2SeqLM>(t5, "T5ForConditionalGeneration", with_decoder(texts()));
  steps_and_comes_back<AutoStateForSpeechSeq2Seq>(kWhisper, "WhisperForConditionalGeneration", with_decoder(sounds()));
  steps_and_comes_back<AutoStateForMaskedLM>(text_config("bert"), "BertForMaskedLM", texts());
  steps_and_comes_back<AutoStateForTokenClassification>(text_config("bert"), "BertForTokenClassification", texts());
  steps_and_comes_back<AutoStateForQuestionAnswering>(text_config("bert"), "BertForQuestionAnswering", texts());
  steps_and_comes_back<AutoStateForEmbedding>(text_config("bert"), "BertModel", texts());
  steps_and_comes_back<AutoStateVisionModel>(concat("{\"model_type\": \"clip_vision_model\", ", kSight, "}"),
                                             "CLIPVisionModel", images());
  steps_and_comes_back<AutoStateForImageClassification>(concat("{\"model_type\": \"vit\", ", kSight, "}"),
                                                        "ViTForImageClassification", images());
  steps_and_comes_back<AutoStateForZeroShotImageClassification>(towers(), "CLIPModel", both());
  steps_and_comes_back<AutoStateForImageTextToText>(llava, "LlavaForConditionalGeneration", texts());
  steps_and_comes_back<AutoStateForAudioClassification>(kWhisper, "WhisperForAudioClassification", sounds());
}

TEST(AutoState, WithoutATransformationHasTheModelAlone) {
  const auto config = AutoConfig::from_dict(Json::parse(text_config("llama")));
  const State state = AutoStateForCausalLM::from_config(*config);
  EXPECT_FALSE(state.tx);
  EXPECT_FALSE(state.opt_state);
  EXPECT_THAT([&] { AutoStateForMaskedLM::from_config(*config); },
              ThrowsMessage<NotSupportedError>(HasSubstr("\"llama\" has no class for masked-lm; it has ")));
}

}  // namespace
}  // namespace easydel
