// GPT-2: learned positions, biases everywhere, weights that lie [in, out].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "easydel/infra/config/config.h"

namespace easydel {

// config.json says n_embd, n_layer, n_head and n_positions for hidden_size, num_hidden_layers, num_attention_heads and
// max_position_embeddings, and activation_function for hidden_act.
struct GPT2Config : Config<GPT2Config> {
  static constexpr std::string_view kModelType = "gpt2";

  GPT2Config();

  std::optional<int64_t> n_inner;  // 4 * hidden_size
  double resid_pdrop = 0.1;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  bool scale_attn_weights = true;
  bool scale_attn_by_inverse_layer_idx = false;
  bool reorder_and_upcast_attn = false;
  bool add_cross_attention = false;
  std::string summary_type = "cls_index";  // these five: kept for transformers
  bool summary_use_proj = true;
  std::optional<std::string> summary_activation;
  bool summary_proj_to_labels = true;
  double summary_first_dropout = 0.1;

  int64_t inner_size() const { return n_inner.value_or(4 * hidden_size); }

  void fields(FieldVisitor& v) override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
