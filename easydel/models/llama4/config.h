// Llama 4's text model: attention within chunks in most layers, and experts in all layers or some.
#pragma once

#include "easydel/infra/config/moe_config.h"

namespace easydel {

struct Llama4TextConfig : Config<Llama4TextConfig, MoeConfig> {
  static constexpr std::string_view kModelType = "llama4_text";
  static constexpr std::string_view kChunked = "chunked_attention";

  Llama4TextConfig();

  int64_t intermediate_size_mlp = 16384;  // of layers without experts
  std::optional<std::vector<int64_t>> moe_layers;
  int64_t interleave_moe_layer_step = 1;
  bool use_qk_norm = true;                             // in layers with rotary embeddings
  std::optional<std::vector<int64_t>> no_rope_layers;  // 1: the layer has rotary embeddings, 0: it has none
  int64_t no_rope_layer_interval = 4;
  std::optional<int64_t> attention_chunk_size = 8192;
  std::optional<std::vector<std::string>> attention_types;  // layer_types: chunked_attention or full_attention
  bool attn_temperature_tuning = true;                      // in layers without rotary embeddings
  int64_t floor_scale = 8192;
  double attn_scale = 0.1;
  double router_jitter_noise = 0.0;

  bool has_experts(int64_t layer) const;
  bool has_rope(int64_t layer) const { return no_rope_layers->at(static_cast<std::size_t>(layer)) != 0; }
  int64_t chunk_of(int64_t layer) const;  // 0: none

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
  RouterBalance router_balance() const override;  // transformers gives the logits, and has no balancing loss
};

}  // namespace easydel
