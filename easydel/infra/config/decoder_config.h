// What the configs of most decoders have in common: their fields, their rules, and how their weights are split.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/infra/config/config.h"

namespace easydel {

// How the routers of a mixture of experts are kept in balance.
struct RouterBalance {
  int64_t top_k = 0;       // 0: no routers
  double coefficient = 0;  // of the auxiliary loss
  bool output_router_logits = false;
};
RouterBalance router_balance_of(const BaseConfig& config);

// A family derives from Config<Family, DecoderConfig>, and lists in fields() the common ones and its own.
struct DecoderConfig : BaseConfig {
  double norm_eps = 1e-6;
  bool attention_bias = false;  // of all four projections
  double attention_dropout = 0.0;
  bool mlp_bias = false;
  std::optional<int64_t> sliding_window;
  std::optional<std::vector<std::string>> layer_types;  // sliding_attention or full_attention for each layer

  static constexpr std::string_view kSliding = "sliding_attention", kFull = "full_attention";
  bool is_sliding(int64_t layer) const;     // as layer_types says; without it, where there is a window
  int64_t window_of(int64_t layer) const {  // 0: none
    return is_sliding(layer) ? sliding_window.value_or(0) : 0;
  }

  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
  virtual RouterBalance router_balance() const { return {}; }

 protected:
  // Where config.json says otherwise; null: it has no such key.
  const char* norm_eps_key_ = "rms_norm_eps";
  const char* hidden_act_key_ = "hidden_act";
  const char* hidden_size_key_ = "hidden_size";
  const char* intermediate_size_key_ = "intermediate_size";
  const char* layers_key_ = "num_hidden_layers";
  const char* heads_key_ = "num_attention_heads";
  const char* positions_key_ = "max_position_embeddings";
  const char* attention_dropout_key_ = "attention_dropout";
  const char* initializer_key_ = "initializer_range";
  bool has_kv_heads_ = true;  // num_key_value_heads is a key
  bool whole_heads_ = true;   // hidden_size must be a multiple of num_attention_heads, without head_dim

  // All that every one of them lists but rope_parameters: sizes, activation, tokens, attention_dropout.
  void common_fields(FieldVisitor& v);
  void head_dim_field(FieldVisitor& v);
  void bias_field(FieldVisitor& v);  // attention_bias
  void rope_field(FieldVisitor& v);
  void window_fields(FieldVisitor& v);  // sliding_window and layer_types

  // Puts the family's partial_rotary_factor into the rope block of a whole config that does not say one.
  static void fill_partial_rotary(Json& given, bool is_whole, double otherwise);

  // Llama's rules behind the family's own, of which the first that matches counts.
  PartitionRules rules_behind(std::vector<PartitionRule> own, bool fully_sharded) const;

  // Layers from `first` on have a window, where layer_types is not given; none has unless `use` says so.
  void upper_windows(bool use, int64_t first);
  // Every `period`-th layer has full attention, if layer_types is not given.
  void alternate_layers(int64_t period);
  // The same for a file that says sliding_window_pattern.
  void read_window_pattern(Json& given) const;
};

}  // namespace easydel
