// A cache of latent attention keeps the latent and the shared rotated part of the keys, and nothing for each head.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "tests/support/one_answer.h"

namespace easydel {
namespace {

std::shared_ptr<BaseModule> tiny(const std::string& model_type) {
  const auto config = AutoConfig::from_dict(
      Json::parse(R"({"model_type": ")" + model_type +
                  R"(", "vocab_size": 31, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3,
          "num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 10, "q_lora_rank": 8,
          "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5, "moe_intermediate_size": 8,
          "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
          "max_position_embeddings": 32})"));
  std::shared_ptr<BaseModule> model = Registry::instance().make_module(*config, TaskType::CausalLM);
  model->initialize({.dtype = float64, .param_dtype = float64, .device = testing_support::device()});
  return model;
}

at::Tensor numbers(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong).to(testing_support::device());
}

constexpr int64_t kLayers = 3, kNumbers = 10 + 4;  // kv_lora_rank + qk_rope_head_dim

TEST(LatentCache, KeepsTheLatentAlone) {
  for (const char* family : {"deepseek_v2", "deepseek_v3"}) {
    const auto model = tiny(family);
    const auto cache = model->init_cache(2, 20);
    EXPECT_EQ(cache->metadata().bytes(), 2 * 20 * kLayers * kNumbers * 8) << family;
    const RaggedPagesMetadata pages = model->create_paged_metadata(0.01, 5, 20);
    EXPECT_EQ(pages.page_bytes(), 5 * kLayers * kNumbers * 8) << family;
  }
}

TEST(LatentCache, FollowsBeams) {
  const at::NoGradGuard no_grad;
  const auto model = tiny("deepseek_v3");
  const at::Tensor ids = numbers({3, 4, 5, 6, 7, 8, 9, 10}).view({2, 4});
  const auto cache = model->init_cache(2, 8);
  (*model)({.input_ids = ids, .past_key_values = cache});
  cache->reorder(numbers({1, 0}));
  const at::Tensor next = numbers({11, 12}).view({2, 1});
  const at::Tensor got = (*model)({.input_ids = next, .past_key_values = cache}).logits.squeeze(1);
  const at::Tensor whole = at::cat({ids.flip(0), next}, 1);
  const at::Tensor want = (*model)({.input_ids = whole}).logits.select(1, 4);
  EXPECT_LT((got - want).abs().max().item<double>(), 1e-10 * want.abs().max().item<double>());
}

}  // namespace
}  // namespace easydel
