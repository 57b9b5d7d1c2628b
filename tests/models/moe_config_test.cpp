// What the families with experts and latent attention refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/models/deepseek_v2/config.h"
#include "easydel/models/deepseek_v3/config.h"
#include "easydel/models/gpt_oss/config.h"
#include "easydel/models/qwen3_moe/config.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

template <class C>
void refuses_moe(const std::string& json, const std::string& message) {
  EXPECT_THAT([&] { C::from_dict(Json::parse(json)); }, ThrowsMessage<ConfigError>(message)) << json;
}

TEST(MoeConfigs, RefuseMoreExpertsForATokenThanThereAre) {
  refuses_moe<Qwen3MoeConfig>(
      R"({"num_experts": 4, "num_experts_per_tok": 5})",
      "[Qwen3MoeConfig] num_experts_per_tok must be at least 1 and at most num_local_experts; got 5 and 4.");
  refuses_moe<DeepseekV2Config>(
      R"({"num_experts_per_tok": 65})",
      "[DeepseekV2Config] num_experts_per_tok must be at least 1 and at most n_routed_experts; got 65 and 64.");
  refuses_moe<DeepseekV3Config>(
      R"({"num_experts_per_tok": 0})",
      "[DeepseekV3Config] num_experts_per_tok must be at least 1 and at most n_routed_experts; got 0 and 256.");
  refuses_moe<GptOssConfig>(
      R"({"num_local_experts": 2, "num_experts_per_tok": 3})",
      "[GptOssConfig] num_experts_per_tok must be at least 1 and at most num_local_experts; got 3 and 2.");
}

TEST(MoeConfigs, RefuseGroupsThatDoNotDivide) {
  refuses_moe<DeepseekV3Config>(R"({"n_group": 7})",
                                "[DeepseekV3Config] n_routed_experts must be a multiple of n_group; got 256 and 7.");
  refuses_moe<DeepseekV3Config>(R"({"topk_group": 9})",
                                "[DeepseekV3Config] topk_group must be at least 1 and at most n_group; got 9 and 8.");
  refuses_moe<DeepseekV3Config>(
      R"({"n_routed_experts": 16, "n_group": 8, "topk_group": 1})",
      "[DeepseekV3Config] num_experts_per_tok must be at most the 2 experts of topk_group groups; got 8.");
  refuses_moe<DeepseekV3Config>(
      R"({"n_routed_experts": 8, "n_group": 8, "topk_group": 8})",
      "[DeepseekV3Config] n_routed_experts must be at least 2 for each n_group; got 8 and 8.");
}

TEST(MoeConfigs, NameTheChoicesTheyKnow) {
  refuses_moe<DeepseekV2Config>(
      R"({"num_experts_per_tok": 2, "topk_method": "noaux_tc"})",
      "[DeepseekV2Config] topk_method must be one of greedy, group_limited_greedy; got \"noaux_tc\".");
  refuses_moe<GptOssConfig>(
      R"({"num_hidden_layers": 1, "layer_types": ["full"]})",
      "[GptOssConfig] layer_types must be one of full_attention, sliding_attention; got \"full\".");
  refuses_moe<GptOssConfig>(
      R"({"num_hidden_layers": 2, "layer_types": ["full_attention"]})",
      "[GptOssConfig] layer_types must have one entry for each of num_hidden_layers; got 1 and 2.");
  refuses_moe<Qwen3MoeConfig>(R"({"moe_method": "sparse"})",
                              "[Qwen3MoeConfig] moe_method must be one of dense_moe, fused_moe, standard_moe; got "
                              "\"sparse\".");
}

TEST(LatentConfigs, RefuseSharedKeyHeads) {
  refuses_moe<DeepseekV3Config>(R"({"num_key_value_heads": 8})",
                                "[DeepseekV3Config] num_key_value_heads must be num_attention_heads, since each head "
                                "has its own keys; got 8 and 128.");
  refuses_moe<DeepseekV2Config>(R"({"kv_lora_rank": 0})", "[DeepseekV2Config] kv_lora_rank must be at least 1; got 0.");
}

}  // namespace
}  // namespace easydel
