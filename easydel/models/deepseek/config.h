// DeepSeek's first models: Llama, with experts of which some are shared by all tokens.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

struct DeepseekConfig : Config<DeepseekConfig, MoeConfig> {
  static constexpr std::string_view kModelType = "deepseek";

  DeepseekConfig();

  std::optional<int64_t> n_routed_experts;  // null: no layer has experts
  std::optional<int64_t> n_shared_experts;  // null: none
  std::optional<int64_t> experts_per_tok;   // num_experts_per_tok
  int64_t moe_intermediate_size = 1407;
  int64_t moe_layer_freq = 1;
  int64_t first_k_dense_replace = 0;
  bool norm_topk_prob = false;
  std::string scoring_func = "softmax";
  double aux_loss_alpha = 0.001;  // kept for its own code
  bool seq_aux = true;            // kept for its own code
  int64_t pretraining_tp = 1;     // kept for its own code

  bool has_experts(int64_t layer) const;  // else a plain MLP of intermediate_size

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  RouterBalance router_balance() const override;  // its own code gives no router logits
};

}  // namespace easydel
