// What the configs of mixtures of experts have in common, beside what every decoder has.
#pragma once

#include <cstdint>
#include <optional>

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

// Experts in place of the MLP, which an auxiliary loss keeps in balance.
struct MoeConfig : DecoderConfig {
  int64_t num_local_experts = 8;
  int64_t num_experts_per_tok = 2;
  bool output_router_logits = false;
  double router_aux_loss_coef = 0.001;

  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
  RouterBalance router_balance() const override;

 protected:
  int64_t least_experts_ = 1;
  // Where config.json says otherwise.
  const char* experts_key_ = "num_local_experts";
  const char* experts_alias_ = "num_experts";
  const char* top_k_key_ = "num_experts_per_tok";

  void expert_fields(FieldVisitor& v);
};

// Attention over a latent, then an MLP in the first layers and experts in the others, some of which all tokens share.
struct LatentMoeConfig : DecoderConfig {
  std::optional<int64_t> pretraining_tp = 1;
  int64_t kv_lora_rank = 512;
  std::optional<int64_t> q_lora_rank = 1536;
  int64_t qk_nope_head_dim = 128;
  int64_t qk_rope_head_dim = 64;
  std::optional<int64_t> qk_head_dim;  // the sum of the two; written, never chosen
  int64_t v_head_dim = 128;
  std::optional<int64_t> first_k_dense_replace = 0;
  int64_t n_routed_experts = 64;
  int64_t n_shared_experts = 2;
  int64_t moe_intermediate_size = 1407;
  std::optional<int64_t> num_experts_per_tok;
  std::optional<bool> norm_topk_prob = false;
  double routed_scaling_factor = 1.0;
  std::optional<int64_t> n_group;
  std::optional<int64_t> topk_group;
  bool output_router_logits = false;

  bool has_experts(int64_t layer) const { return layer >= first_k_dense_replace.value_or(0); }
  int64_t top_k() const;  // ConfigError where num_experts_per_tok is not given

  void post_init() override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
  RouterBalance router_balance() const override;  // transformers gives the logits, and has no balancing loss

 protected:
  const char* experts_alias_ = "num_experts";

  void latent_fields(FieldVisitor& v);  // all that these families list but their own
  void check_groups() const;            // n_group and topk_group
};

}  // namespace easydel
