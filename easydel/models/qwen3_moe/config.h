// Qwen3 MoE: Qwen3's attention, with experts in place of the MLP in all layers or some.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

struct Qwen3MoeConfig : Config<Qwen3MoeConfig, MoeConfig> {
  static constexpr std::string_view kModelType = "qwen3_moe";

  Qwen3MoeConfig();

  bool use_sliding_window = false;  // sliding_window is null without it
  int64_t moe_intermediate_size = 768;
  bool norm_topk_prob = false;
  int64_t decoder_sparse_step = 1;
  std::optional<std::vector<int64_t>> mlp_only_layers;

  bool has_experts(int64_t layer) const;  // else a plain MLP of intermediate_size

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
};

}  // namespace easydel
