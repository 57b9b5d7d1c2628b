// GLM-4.5 and GLM-4.6: half of each head is rotated, experts chosen as in DeepSeek V3.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

struct Glm4MoeConfig : Config<Glm4MoeConfig, MoeConfig> {
  static constexpr std::string_view kModelType = "glm4_moe";

  Glm4MoeConfig();

  int64_t moe_intermediate_size = 1408;
  int64_t n_shared_experts = 1;
  double routed_scaling_factor = 1.0;
  int64_t n_group = 1;
  int64_t topk_group = 1;
  int64_t first_k_dense_replace = 1;
  bool norm_topk_prob = true;
  bool use_qk_norm = false;
  int64_t num_nextn_predict_layers = 1;  // of the files, behind the last layer; not read

  bool has_experts(int64_t layer) const { return layer >= first_k_dense_replace; }

  void fields(FieldVisitor& v) override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
  RouterBalance router_balance() const override;  // transformers gives the logits, and has no balancing loss
};

}  // namespace easydel
