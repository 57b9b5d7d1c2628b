// What goes into forward: what is refused, and what is filled in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/models/gpt2/model.h"
#include "tests/infra/tiny_llama.h"

namespace easydel {
namespace {

using testing::SizeIs;
using testing::ThrowsMessage;

class Forward : public testing::Test {
 protected:
  auto with(const ModelInputs& inputs) {
    return [this, inputs] { (*model_)(inputs); };
  }
  std::shared_ptr<LlamaForCausalLM> model_ = tiny_llama();
  at::Tensor ids_ = tiny_ids(2, 5);
};

TEST_F(Forward, NeedsIdsOrEmbeddings) {
  EXPECT_THAT(with({}), ThrowsMessage<ConfigError>(
                            "[forward] exactly one of input_ids and inputs_embeds is needed; got neither."));
  EXPECT_THAT(with({.input_ids = ids_, .inputs_embeds = at::zeros({2, 5, 16})}),
              ThrowsMessage<ConfigError>("[forward] exactly one of input_ids and inputs_embeds is needed; got both."));
}

TEST_F(Forward, RefusesIdsThatAreNone) {
  EXPECT_THAT(with({.input_ids = ids_[0]}),
              ThrowsMessage<ShapeError>("[forward] input_ids must be [batch, tokens]; got [5]."));
  EXPECT_THAT(with({.input_ids = ids_.to(at::kFloat)}),
              ThrowsMessage<ShapeError>("[forward] input_ids must be integers; got Float."));
  EXPECT_THAT(with({.input_ids = at::tensor({3, 29}, at::kLong).view({1, 2})}),
              ThrowsMessage<ShapeError>("[Embedding] ids must be in [0, 29); got 3 to 29."));
  EXPECT_THAT(with({.input_ids = at::tensor({-1, 2}, at::kLong).view({1, 2})}),
              ThrowsMessage<ShapeError>("[Embedding] ids must be in [0, 29); got -1 to 2."));
}

TEST_F(Forward, RefusesEmbeddingsOfAnotherWidth) {
  EXPECT_THAT(with({.inputs_embeds = at::zeros({2, 5, 17})}),
              ThrowsMessage<ShapeError>("[forward] inputs_embeds must be [batch, tokens, 16]; got [2, 5, 17]."));
  EXPECT_THAT(with({.inputs_embeds = at::zeros({5, 16})}),
              ThrowsMessage<ShapeError>("[forward] inputs_embeds must be [batch, tokens, 16]; got [5, 16]."));
}

TEST_F(Forward, RefusesWhatDoesNotGoWithTheIds) {
  const at::Tensor four = ids_.narrow(1, 0, 4);
  EXPECT_THAT(with({.input_ids = ids_, .position_ids = four}),
              ThrowsMessage<ShapeError>("[forward] position_ids must be [2, 5]; got [2, 4]."));
  EXPECT_THAT(with({.input_ids = ids_, .segment_ids = four}),
              ThrowsMessage<ShapeError>("[forward] segment_ids must be [2, 5]; got [2, 4]."));
  EXPECT_THAT(with({.input_ids = ids_, .token_type_ids = four}),
              ThrowsMessage<ShapeError>("[forward] token_type_ids must be [2, 5]; got [2, 4]."));
  EXPECT_THAT(with({.input_ids = ids_, .labels = four}),
              ThrowsMessage<ShapeError>("[LlamaForCausalLM] labels must be [2, 5]; got [2, 4]."));
}

TEST_F(Forward, RefusesAMaskOfAnotherSize) {
  const auto message = [](const char* got) {
    return concat("[forward] attention_mask must be [2, 5] or [2, 1 or 4, 5, 5]; got ", got, ".");
  };
  EXPECT_THAT(with({.input_ids = ids_, .attention_mask = at::ones({2, 4}, at::kLong)}),
              ThrowsMessage<ShapeError>(message("[2, 4]")));
  EXPECT_THAT(with({.input_ids = ids_, .attention_mask = at::zeros({3, 5}, at::kLong)}),
              ThrowsMessage<ShapeError>(message("[3, 5]")));
  EXPECT_THAT(with({.input_ids = ids_, .attention_mask = at::ones({5}, at::kLong)}),
              ThrowsMessage<ShapeError>(message("[5]")));
  EXPECT_THAT(with({.input_ids = ids_, .attention_mask = at::ones({2, 3, 5, 5}, at::kBool)}),
              ThrowsMessage<ShapeError>(message("[2, 3, 5, 5]")));
}

TEST_F(Forward, TakesIdsOfAnyIntegerType) {
  for (const DType type : {at::kInt, at::kShort, at::kByte}) {
    EXPECT_TRUE(at::equal(logits_of(*model_, {.input_ids = ids_.to(type)}), logits_of(*model_, {.input_ids = ids_})));
  }
}

TEST_F(Forward, TakesTheEmbeddingsThemselves) {
  const at::Tensor table = model_->params().at("model.embed_tokens.weight").detach();
  EXPECT_TRUE(at::equal(logits_of(*model_, {.inputs_embeds = at::embedding(table, ids_)}),
                        logits_of(*model_, {.input_ids = ids_})));
}

TEST_F(Forward, OfNoTokensIsEmpty) {
  EXPECT_EQ(logits_of(*model_, {.input_ids = ids_.narrow(1, 0, 0)}).sizes(), at::IntArrayRef({2, 0, 29}));
  EXPECT_EQ(logits_of(*model_, {.input_ids = ids_.narrow(0, 0, 0)}).sizes(), at::IntArrayRef({0, 5, 29}));
}

TEST_F(Forward, GivesTheStatesAndWeightsThatAreAskedFor) {
  const ModelOutput plain = (*model_)({.input_ids = ids_});
  const ModelOutput out = (*model_)({.input_ids = ids_, .output_attentions = true, .output_hidden_states = true});

  EXPECT_THAT(plain.hidden_states, SizeIs(0));
  EXPECT_THAT(plain.attentions, SizeIs(0));
  ASSERT_THAT(out.hidden_states, SizeIs(3));
  EXPECT_TRUE(out.hidden_states.back().is_same(out.last_hidden_state));
  ASSERT_THAT(out.attentions, SizeIs(2));
  EXPECT_EQ(out.attentions[0].sizes(), at::IntArrayRef({2, 4, 5, 5}));
  EXPECT_TRUE(at::allclose(out.attentions[1].sum(-1), at::ones({2, 4, 5})));
  EXPECT_TRUE(at::allclose(out.logits, plain.logits, 1e-4, 1e-5));
}

TEST_F(Forward, HoldsLogitsBesideALossOnlyWhenAsked) {
  EXPECT_FALSE((*model_)({.input_ids = ids_, .labels = ids_}).logits.defined());
  EXPECT_TRUE(at::equal((*model_)({.input_ids = ids_, .labels = ids_, .output_logits = true}).logits,
                        logits_of(*model_, {.input_ids = ids_})));
}

TEST_F(Forward, AMatrixSaysTheSameAsTheRule) {
  const at::Tensor causal = at::ones({5, 5}, at::kBool).tril().view({1, 1, 5, 5});
  EXPECT_TRUE(at::allclose(logits_of(*model_, {.input_ids = ids_, .attention_mask = causal}),
                           logits_of(*model_, {.input_ids = ids_}), 1e-4, 1e-5));
}

TEST_F(Forward, LeftPaddingChangesNothingForWhatIsNoPadding) {
  const at::Tensor padded = at::cat({at::zeros({2, 3}, at::kLong), ids_}, 1);
  const at::Tensor mask = at::cat({at::zeros({2, 3}, at::kLong), at::ones({2, 5}, at::kLong)}, 1);
  const at::Tensor positions = (mask.cumsum(1) - 1).clamp_min(0);
  const at::Tensor logits =
      logits_of(*model_, {.input_ids = padded, .attention_mask = mask, .position_ids = positions});
  EXPECT_TRUE(at::allclose(logits.narrow(1, 3, 5), logits_of(*model_, {.input_ids = ids_}), 1e-4, 1e-5));
  EXPECT_FALSE(logits.isnan().any().item<bool>());
}

TEST(PrepareInputs, CountsPositionsAnewInEachSegment) {
  const auto model = tiny_llama();
  const at::Tensor segments = at::tensor({4, 4, 4, 7, 7, 4, -1, -1}, at::kLong).view({1, 8});
  const PreparedInputs inputs = model->prepare_inputs_for_call({.input_ids = tiny_ids(1, 8), .segment_ids = segments});
  EXPECT_TRUE(at::equal(inputs.position_ids, at::tensor({0, 1, 2, 0, 1, 0, 0, 1}, at::kLong).view({1, 8})));
  EXPECT_TRUE(at::equal(model->prepare_inputs_for_call({.input_ids = tiny_ids(2, 3)}).position_ids,
                        at::tensor({0, 1, 2, 0, 1, 2}, at::kLong).view({2, 3})));
}

TEST(PackedSequences, GiveWhatEachGivesAlone) {
  GPT2Config learned_positions;
  learned_positions.vocab_size = 29;
  learned_positions.hidden_size = 16;
  learned_positions.num_hidden_layers = 2;
  learned_positions.num_attention_heads = 4;
  learned_positions.max_position_embeddings = 8;
  learned_positions.bos_token_id = 1;
  learned_positions.eos_token_id = 2;
  const at::Tensor ids = tiny_ids(1, 8);
  const at::Tensor segments = at::tensor({0, 0, 0, 1, 1, 1, 1, 1}, at::kLong).view({1, 8});
  const std::vector<std::shared_ptr<BaseModule>> models{tiny_llama(), make_model<GPT2LMHeadModel>(learned_positions)};
  for (const auto& model : models) {
    const at::Tensor alone = at::cat(
        {logits_of(*model, {.input_ids = ids.narrow(1, 0, 3)}), logits_of(*model, {.input_ids = ids.narrow(1, 3, 5)})},
        1);
    EXPECT_TRUE(at::allclose(logits_of(*model, {.input_ids = ids, .segment_ids = segments}), alone, 1e-4, 1e-5))
        << model->type_name();
  }
}

TEST(LearnedPositions, EndWhereTheTableEnds) {
  GPT2Config config;
  config.vocab_size = 29;
  config.hidden_size = 16;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 4;
  config.max_position_embeddings = 8;
  const auto model = make_model<GPT2LMHeadModel>(config);
  EXPECT_THAT([&] { (*model)({.input_ids = tiny_ids(1, 9)}); },
              ThrowsMessage<ShapeError>("[Embedding] ids must be in [0, 8); got 0 to 8."));
}

}  // namespace
}  // namespace easydel
