// Whisper: speech to text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "easydel/infra/config/config.h"

namespace easydel {

// config.json says d_model, encoder_layers, encoder_attention_heads, encoder_ffn_dim, activation_function, init_std and
// max_target_positions for hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, hidden_act,
// initializer_range and max_position_embeddings.
struct WhisperConfig : Config<WhisperConfig> {
  static constexpr std::string_view kModelType = "whisper";
  WhisperConfig();

  int64_t num_mel_bins = 80;
  int64_t max_source_positions = 1500;
  int64_t decoder_layers = 4;
  int64_t decoder_attention_heads = 6;
  int64_t decoder_ffn_dim = 1536;
  double encoder_layerdrop = 0.0;
  double decoder_layerdrop = 0.0;
  double dropout = 0.0;
  double attention_dropout = 0.0;
  double activation_dropout = 0.0;
  bool scale_embedding = false;
  std::optional<int64_t> decoder_start_token_id = 50257;
  std::optional<std::vector<int64_t>> suppress_tokens;
  std::optional<std::vector<int64_t>> begin_suppress_tokens = std::vector<int64_t>{220, 50256};
  bool use_weighted_layer_sum = false;
  int64_t classifier_proj_size = 256;
  bool apply_spec_augment = false;
  double mask_time_prob = 0.05;
  int64_t mask_time_length = 10;
  int64_t mask_time_min_masks = 2;
  double mask_feature_prob = 0.0;
  int64_t mask_feature_length = 10;
  int64_t mask_feature_min_masks = 0;
  int64_t median_filter_width = 7;

  // Mel frames of a call: the second convolution halves them.
  int64_t frames() const { return 2 * max_source_positions; }

  void fields(FieldVisitor& v) override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
