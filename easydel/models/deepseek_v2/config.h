// DeepSeek V2 and its Lite.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "easydel/infra/config.h"

namespace easydel {

struct DeepseekV2Config : Config<DeepseekV2Config> {
  static constexpr std::string_view kModelType = "deepseek_v2";

  DeepseekV2Config();

  bool attention_bias = false;
  std::optional<double> attention_dropout = 0.0;
  double rms_norm_eps = 1e-6;
  std::optional<int64_t> pretraining_tp = 1;
  int64_t kv_lora_rank = 512;
  std::optional<int64_t> q_lora_rank = 1536;
  int64_t qk_nope_head_dim = 128;
  int64_t qk_rope_head_dim = 64;
  std::optional<int64_t> qk_head_dim;  // the sum of the two; written, never chosen
  int64_t v_head_dim = 128;
  bool mlp_bias = false;
  int64_t first_k_dense_replace = 0;
  int64_t n_routed_experts = 64;
  int64_t n_shared_experts = 2;
  int64_t moe_intermediate_size = 1407;
  std::optional<int64_t> num_experts_per_tok;
  std::optional<bool> norm_topk_prob = false;  // transformers has no use for it here
  double routed_scaling_factor = 1.0;
  std::optional<std::string> topk_method = "greedy";  // or group_limited_greedy
  std::optional<int64_t> n_group;
  std::optional<int64_t> topk_group;
  bool output_router_logits = false;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
