// DBRX: its attention's and its experts' settings are in blocks of their own.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

struct DbrxConfig : Config<DbrxConfig, MoeConfig> {
  static constexpr std::string_view kModelType = "dbrx";

  DbrxConfig();

  Json attn_config =
      Json::object();                // kv_n_heads, clip_qkv, attn_pdrop; rope_theta where rope_parameters are not given
  Json ffn_config = Json::object();  // ffn_hidden_size, ffn_act_fn and the keys that begin with moe_
  double resid_pdrop = 0.0;          // of what attention and experts add
  double emb_pdrop = 0.0;            // kept for transformers, which drops nothing either

  double clip_qkv() const;        // 0: nothing is clipped
  double moe_jitter_eps() const;  // noise on what the router and the experts read in training
  bool normalizes_weights() const;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
