// The text model of Gemma 3: layers with windows have rotary tables of their own.
#pragma once

#include "easydel/infra/decoder_config.h"

namespace easydel {

// The rotary embeddings of each kind of layer.
struct RopeByLayerType {
  RopeParameters full_attention{.rope_theta = 1e6}, sliding_attention;
};
void list_fields(RopeByLayerType& rope, FieldVisitor& v);

struct Gemma3TextConfig : Config<Gemma3TextConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "gemma3_text";

  Gemma3TextConfig();

  int64_t query_pre_attn_scalar = 256;  // scores are divided by its root
  std::optional<double> final_logit_softcapping;
  std::optional<double> attn_logit_softcapping;  // kept for transformers, whose attention leaves it out
  std::optional<bool> use_bidirectional_attention = false;
  RopeByLayerType rope_by_type;  // `rope` is that of the layers that see everything

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
};

}  // namespace easydel
