// OPT: learned positions, layer norms before or behind attention and MLP, biases.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct OPTConfig : Config<OPTConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "opt";

  OPTConfig();

  bool do_layer_norm_before = true;
  bool remove_final_layer_norm = false;
  std::optional<int64_t> word_embed_proj_dim;  // hidden_size
  double dropout = 0.1;
  double layerdrop = 0.0;
  bool enable_bias = true;
  bool layer_norm_elementwise_affine = true;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
