// Qwen3 MoE: Qwen3's attention, with experts in place of the MLP in all layers or some.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "easydel/infra/config.h"

namespace easydel {

struct Qwen3MoeConfig : Config<Qwen3MoeConfig> {
  static constexpr std::string_view kModelType = "qwen3_moe";

  Qwen3MoeConfig();

  double rms_norm_eps = 1e-6;
  bool attention_bias = false;
  double attention_dropout = 0.0;
  bool use_sliding_window = false;
  std::optional<int64_t> sliding_window = 4096;  // null without use_sliding_window
  int64_t moe_intermediate_size = 768;
  int64_t num_experts_per_tok = 8;
  int64_t num_local_experts = 128;
  bool norm_topk_prob = false;
  int64_t decoder_sparse_step = 1;
  std::optional<std::vector<int64_t>> mlp_only_layers;
  bool output_router_logits = false;
  double router_aux_loss_coef = 0.001;

  bool has_experts(int64_t layer) const;  // else a plain MLP of intermediate_size

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
