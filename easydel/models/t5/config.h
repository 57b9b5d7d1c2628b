// T5 and what is made of it: t5, flan-t5, mt5, umt5.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "easydel/infra/config/config.h"

namespace easydel {

// config.json says d_model, d_kv, d_ff, num_layers and num_heads for hidden_size, head_dim, intermediate_size,
// num_hidden_layers and num_attention_heads.
struct T5FamilyConfig : BaseConfig {
  std::optional<int64_t> num_decoder_layers;  // as many as num_layers
  int64_t relative_attention_num_buckets = 32;
  int64_t relative_attention_max_distance = 128;
  double dropout_rate = 0.1;
  double classifier_dropout = 0.0;
  double layer_norm_epsilon = 1e-6;
  double initializer_factor = 1.0;
  std::string feed_forward_proj = "relu";  // an activation, or gated- and an activation
  std::string dense_act_fn;                // these two follow from it
  bool is_gated_act = false;
  bool is_decoder = false;
  bool scale_decoder_outputs = true;  // by 1 / sqrt(d_model), before the head
  std::optional<int64_t> decoder_start_token_id;

  int64_t decoder_layers() const { return num_decoder_layers.value_or(num_hidden_layers); }
  bool is_gated() const { return feed_forward_proj.starts_with("gated-"); }
  std::string activation() const;
  virtual bool has_bias_in_each_layer() const { return false; }  // a table of relative positions in all layers

  void fields(FieldVisitor& v) override;
  void rename_older_keys(Json& given, bool is_whole) const override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;

 protected:
  T5FamilyConfig();
  bool has_scale_key_ = false, has_bos_key_ = false, has_start_key_ = true;
};

struct T5Config : Config<T5Config, T5FamilyConfig> {
  static constexpr std::string_view kModelType = "t5";
  T5Config();
};

}  // namespace easydel
