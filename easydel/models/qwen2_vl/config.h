// Qwen2-VL: a tower for images of any size, and Qwen2 with positions in time, height and width. What the configs of
// Qwen's vision-language families have in common is here too.
#pragma once

#include <vector>

#include "easydel/infra/config/decoder_config.h"
#include "easydel/infra/config/sub_config.h"

namespace easydel {

struct MropeParameters : RopeParameters {
  std::vector<int64_t> mrope_section;  // pairs of a head for time, height and width; empty: the family's own
};
void list_fields(MropeParameters& rope, FieldVisitor& v);

// Of a tower: Qwen's names are depth and num_heads.
struct QwenVisionConfig : BaseConfig {
  int64_t in_channels = 3, patch_size = 14, spatial_merge_size = 2, temporal_patch_size = 2;

  virtual int64_t width() const { return hidden_size; }  // of the blocks
  virtual int64_t out_width() const = 0;                 // of a token
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;

 protected:
  QwenVisionConfig();
  void tower_fields(FieldVisitor& v);  // all but the widths
};

struct QwenTextConfig : DecoderConfig {
  MropeParameters mrope;  // `rope` is what follows from it

  std::vector<int64_t> sections() const { return mrope.mrope_section.empty() ? own_sections_ : mrope.mrope_section; }
  void rename_older_keys(Json& given, bool is_whole) const override;
  void post_init() override;
  void validate() const override;

 protected:
  std::vector<int64_t> own_sections_;
  void text_fields(FieldVisitor& v);
};

// Qwen2's own, with windows in the upper layers.
struct Qwen2TextWithGrids : QwenTextConfig {
  bool use_sliding_window = false;
  int64_t max_window_layers = 80;

  void fields(FieldVisitor& v) override;
  void post_init() override;

 protected:
  Qwen2TextWithGrids();
};

// The whole of a family.
struct QwenVLConfig : BaseConfig {
  SubConfig vision_config, text_config;
  int64_t image_token_id = 151655, video_token_id = 151656;
  int64_t vision_start_token_id = 151652, vision_end_token_id = 151653;

  void fields(FieldVisitor& v) override;
  void rename_older_keys(Json& given, bool is_whole) const override;  // files that have no text_config
  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;

 protected:
  QwenVLConfig();  // with Qwen2-VL's parts
};

struct Qwen2VLVisionConfig : Config<Qwen2VLVisionConfig, QwenVisionConfig> {
  static constexpr std::string_view kModelType = "qwen2_vl_vision";
  Qwen2VLVisionConfig();

  int64_t embed_dim = 1280;
  int64_t mlp_ratio = 4;

  int64_t width() const override { return embed_dim; }
  int64_t out_width() const override { return hidden_size; }
  void fields(FieldVisitor& v) override;
  void validate() const override;
};

struct Qwen2VLTextConfig : Config<Qwen2VLTextConfig, Qwen2TextWithGrids> {
  static constexpr std::string_view kModelType = "qwen2_vl_text";
};

struct Qwen2VLConfig : Config<Qwen2VLConfig, QwenVLConfig> {
  static constexpr std::string_view kModelType = "qwen2_vl";
  Qwen2VLConfig();
};

}  // namespace easydel
