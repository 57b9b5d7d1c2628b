// Qwen3 MoE: Qwen3's attention, with experts in place of the MLP in all layers or some.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

// What Qwen2 MoE and Qwen3 MoE share.
struct QwenMoeConfig : MoeConfig {
  QwenMoeConfig() { least_experts_ = 0; }

  bool use_sliding_window = false;  // there is no window without it
  int64_t moe_intermediate_size = 768;
  bool norm_topk_prob = false;
  int64_t decoder_sparse_step = 1;
  std::optional<std::vector<int64_t>> mlp_only_layers;

  bool has_experts(int64_t layer) const;  // else a plain MLP of intermediate_size

  void post_init() override;
  void validate() const override;

 protected:
  void sparse_fields(FieldVisitor& v);  // all but use_sliding_window
};

struct Qwen3MoeConfig : Config<Qwen3MoeConfig, QwenMoeConfig> {
  static constexpr std::string_view kModelType = "qwen3_moe";

  Qwen3MoeConfig();

  void fields(FieldVisitor& v) override;
  void post_init() override;
};

}  // namespace easydel
