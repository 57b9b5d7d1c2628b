// ModernBERT: an encoder with rotary embeddings, most of whose layers have local attention.
#pragma once

#include "easydel/models/gemma3/config.h"

namespace easydel {

struct ModernBertConfig : Config<ModernBertConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "modernbert";

  ModernBertConfig();

  RopeByLayerType rope_by_type;  // `rope` is that of the full-attention layers
  int64_t local_attention = 128;
  bool norm_bias = false;
  double embedding_dropout = 0.0;
  double mlp_dropout = 0.0;
  bool decoder_bias = true;  // of the logits
  std::string classifier_pooling = "cls";
  double classifier_dropout = 0.0;
  bool classifier_bias = false;
  std::string classifier_activation = "gelu";
  std::optional<int64_t> cls_token_id = 50281, sep_token_id = 50282;
  double initializer_cutoff_factor = 2.0;
  bool deterministic_flash_attn = false;
  bool sparse_prediction = false;
  int64_t sparse_pred_ignore_index = -100;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
