// Gemma 3: layers with windows have rotary tables of their own; the larger models accept images.
#pragma once

#include "easydel/infra/config/sub_config.h"
#include "easydel/models/gemma2/config.h"

namespace easydel {

// The rotary embeddings of each kind of layer.
struct RopeByLayerType {
  RopeParameters full_attention{.rope_theta = 1e6}, sliding_attention;
};
void list_fields(RopeByLayerType& rope, FieldVisitor& v);
// For older files, which have rope_theta, rope_scaling and rope_local_base_freq: a block for each kind of layer.
void split_rope_by_layer_type(Json& given, double full_theta, double sliding_theta);

struct Gemma3TextConfig : Config<Gemma3TextConfig, CappedGemmaConfig> {
  static constexpr std::string_view kModelType = "gemma3_text";

  Gemma3TextConfig();

  // attn_logit_softcapping is kept for transformers, whose attention leaves it out.
  RopeByLayerType rope_by_type;  // `rope` is that of the full-attention layers

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
};

struct Gemma3Config : Config<Gemma3Config> {
  static constexpr std::string_view kModelType = "gemma3";
  Gemma3Config();

  SubConfig text_config, vision_config;
  int64_t mm_tokens_per_image = 256;
  int64_t boi_token_index = 255999, eoi_token_index = 256000, image_token_index = 262144;

  int64_t patches_per_side() const;  // of an image
  int64_t pooled_patches() const;    // of a side, to one feature

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
