// MPT: distances in place of position embeddings, and no biases at all.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct MptConfig : Config<MptConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "mpt";

  MptConfig();

  Json attn_config = Json::object();  // clip_qkv, softmax_scale and attn_pdrop act; what is not supported is refused
  int64_t expansion_ratio = 4;
  double resid_pdrop = 0.0;  // from here on: kept for transformers, which does as it does without them
  double emb_pdrop = 0.0;
  bool learned_pos_emb = true;
  std::string init_device = "cpu";
  Json logit_scale;
  bool no_bias = true;
  double embedding_fraction = 1.0;
  std::string norm_type = "low_precision_layernorm";

  std::optional<double> attention_number(const char* key) const;  // of attn_config

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
