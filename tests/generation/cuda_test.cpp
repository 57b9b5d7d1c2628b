// Generation on a GPU against itself on the CPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "easydel/generation/generate.h"
#include "easydel/models/llama/model.h"

namespace easydel {
namespace {

class GenerateOnCuda : public testing::TestWithParam<GenerationConfig> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
  }
};

std::shared_ptr<LlamaForCausalLM> model_on(at::Device device) {
  LlamaConfig config;
  config.vocab_size = 500;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.max_position_embeddings = 128;
  config.initializer_range = 0.4;
  return make_model<LlamaForCausalLM>(config, {.device = device});
}

TEST_P(GenerateOnCuda, GivesTheTokensOfTheCpu) {
  const at::Tensor ids = at::tensor({0, 0, 9, 3, 17, 8, 2, 5}, at::kLong).view({2, 4});
  const at::Tensor mask = at::tensor({0, 0, 1, 1, 1, 1, 1, 1}, at::kLong).view({2, 4});
  const auto here = model_on(at::kCPU), there = model_on(at::kCUDA);
  GenerationConfig config = GetParam();
  config.max_new_tokens = 30;
  for (const bool ends : {false, true}) {
    if (ends) {  // at a token that does come, between two looks of the host at the device
      const at::Tensor free =
          generate(*here, ids, {.generation_config = config, .inputs = {.attention_mask = mask}}).sequences;
      config.eos_token_id = {free[0][15].item<int64_t>(), free[1][17].item<int64_t>()};
      config.pad_token_id = 499;
    }
    const GenerateOptions options{.generation_config = config, .inputs = {.attention_mask = mask}};
    const GenerateOutput expected = generate(*here, ids, options), actual = generate(*there, ids, options);
    EXPECT_TRUE(actual.sequences.is_cuda());
    EXPECT_TRUE(at::equal(actual.sequences.cpu(), expected.sequences)) << actual.sequences << expected.sequences;
    EXPECT_EQ(actual.lengths, expected.lengths);
    EXPECT_EQ(actual.finish_reasons, expected.finish_reasons);
    EXPECT_EQ(actual.scores.size(), expected.scores.size());
  }
}

INSTANTIATE_TEST_SUITE_P(
    EachWay, GenerateOnCuda,
    testing::Values(GenerationConfig{}, GenerationConfig{.output_scores = true}, GenerationConfig{.do_sample = true},
                    GenerationConfig{.do_sample = true, .temperature = 0.8, .top_k = 0, .top_p = 0.9},
                    GenerationConfig{.do_sample = true, .top_k = 30, .min_p = 0.01, .num_return_sequences = 3},
                    GenerationConfig{.num_beams = 3, .num_return_sequences = 2},
                    GenerationConfig{.do_sample = true, .num_beams = 3},
                    GenerationConfig{.min_new_tokens = 4,
                                     .repetition_penalty = 1.2,
                                     .presence_penalty = 0.3,
                                     .frequency_penalty = 0.1,
                                     .no_repeat_ngram_size = 3,
                                     .bad_words_ids = {{{7}, {8, 9}}},
                                     .sequence_bias = {{{{11}, 2.0}, {{12, 13}, -3.0}}},
                                     .suppress_tokens = {{21, 22}},
                                     .begin_suppress_tokens = {{23}},
                                     .remove_invalid_values = true,
                                     .renormalize_logits = true}));

}  // namespace
}  // namespace easydel
