// Qwen1.5 MoE and Qwen2 MoE: Qwen2's attention, experts, and a shared expert behind a gate of its own.
#pragma once

#include "easydel/models/qwen3_moe/config.h"

namespace easydel {

struct Qwen2MoeConfig : Config<Qwen2MoeConfig, QwenMoeConfig> {
  static constexpr std::string_view kModelType = "qwen2_moe";

  Qwen2MoeConfig();

  int64_t window = 4096;  // 0: none, which is what it becomes without use_sliding_window
  int64_t max_window_layers = 28;
  int64_t shared_expert_intermediate_size = 5632;
  bool qkv_bias = true;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
};

}  // namespace easydel
