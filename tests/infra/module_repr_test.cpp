#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/infra/tiny_llama.h"

namespace easydel {
namespace {

LlamaConfig one_layer() {
  LlamaConfig config = tiny_config();
  config.num_hidden_layers = 1;
  return config;
}

TEST(ModuleRepr, HasALineForEachParameter) {
  const auto model = lazy_init<LlamaForCausalLM>(one_layer(), {.param_dtype = bfloat16});
  EXPECT_EQ(get_module_repr(*model),
            "model.embed_tokens.weight: bfloat16[29, 16]\n"
            "model.layers.0.self_attn.q_proj.weight: bfloat16[16, 16]\n"
            "model.layers.0.self_attn.k_proj.weight: bfloat16[8, 16]\n"
            "model.layers.0.self_attn.v_proj.weight: bfloat16[8, 16]\n"
            "model.layers.0.self_attn.o_proj.weight: bfloat16[16, 16]\n"
            "model.layers.0.mlp.gate_proj.weight: bfloat16[24, 16]\n"
            "model.layers.0.mlp.up_proj.weight: bfloat16[24, 16]\n"
            "model.layers.0.mlp.down_proj.weight: bfloat16[16, 24]\n"
            "model.layers.0.input_layernorm.weight: bfloat16[16]\n"
            "model.layers.0.post_attention_layernorm.weight: bfloat16[16]\n"
            "model.norm.weight: bfloat16[16]\n"
            "lm_head.weight: bfloat16[29, 16]\n");
}

TEST(Prettify, EndsAtTheDepthThatIsAskedFor) {
  const auto model = lazy_init<LlamaForCausalLM>(tiny_config());
  EXPECT_EQ(prettify(*model, 0), "LlamaForCausalLM(...)");
  EXPECT_EQ(prettify(*model, 3),
            "LlamaForCausalLM(\n"
            "  (model): LlamaModel(\n"
            "    (embed_tokens): Embedding(29, 16)\n"
            "    (layers): ModuleList(\n"
            "      (0-1): 2 x LlamaDecoderLayer(...)\n"
            "    )\n"
            "    (norm): RMSNorm((16,), eps=1e-06)\n"
            "  )\n"
            "  (lm_head): Linear(in_features=16, out_features=29, bias=False)\n"
            ")");
}

TEST(Printify, WritesTheTreeToStandardOutput) {
  const auto model = lazy_init<LlamaForCausalLM>(tiny_config());
  testing::internal::CaptureStdout();
  printify(*model);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), prettify(*model) + "\n");
}

}  // namespace
}  // namespace easydel
