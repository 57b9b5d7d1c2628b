// DeepSeek V3 and R1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "easydel/infra/config.h"

namespace easydel {

struct DeepseekV3Config : Config<DeepseekV3Config> {
  static constexpr std::string_view kModelType = "deepseek_v3";

  DeepseekV3Config();

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
  std::optional<bool> rope_interleave = true;
  std::optional<int64_t> first_k_dense_replace = 3;
  int64_t n_routed_experts = 256;
  int64_t n_shared_experts = 1;
  int64_t moe_intermediate_size = 2048;
  std::optional<int64_t> num_experts_per_tok = 8;
  std::optional<bool> norm_topk_prob = true;
  double routed_scaling_factor = 2.5;
  std::optional<int64_t> n_group = 8;
  std::optional<int64_t> topk_group = 4;
  int64_t num_nextn_predict_layers = 1;  // of the files, behind the last layer; not read
  bool output_router_logits = false;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
