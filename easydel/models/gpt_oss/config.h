// gpt-oss: attention with sinks and a window in every other layer, and experts with biases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/infra/config.h"

namespace easydel {

struct GptOssConfig : Config<GptOssConfig> {
  static constexpr std::string_view kModelType = "gpt_oss";

  GptOssConfig();

  double rms_norm_eps = 1e-5;
  bool attention_bias = true;
  double attention_dropout = 0.0;
  std::optional<int64_t> sliding_window = 128;
  std::optional<std::vector<std::string>> layer_types;  // sliding_attention and full_attention in turn
  int64_t num_experts_per_tok = 4;
  int64_t num_local_experts = 128;
  double swiglu_alpha = 1.702;
  double swiglu_limit = 7.0;
  bool output_router_logits = false;
  double router_aux_loss_coef = 0.001;

  int64_t window(int64_t layer) const;  // 0: none

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
