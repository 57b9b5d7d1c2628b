#include "easydel/models/qwen2_5_vl/model.h"

namespace easydel {
namespace {

PatchTowerSpec qwen2_5_tower(const Qwen2_5_VLVisionConfig& c) {
  PatchTowerSpec spec = tower_spec(c);
  spec.mlp_width = c.intermediate_size;
  spec.norm.kind = NormSpec::Kind::Rms;
  spec.gated = true;
  spec.up_name = "up_proj";
  spec.down_name = "down_proj";
  spec.window = c.window();
  spec.full_layers = {c.fullatt_block_indexes.begin(), c.fullatt_block_indexes.end()};
  return spec;
}

}  // namespace

Qwen2_5_VisionTransformerPretrainedModel::Qwen2_5_VisionTransformerPretrainedModel(const Qwen2_5_VLVisionConfig& c)
    : PatchTower(c, qwen2_5_tower(c)) {}

Qwen2_5_VLTextModel::Qwen2_5_VLTextModel(const Qwen2_5_VLTextConfig& c)
    : MropeDecoder(c, sections_in_order(c.sections()), [&](int64_t layer) { return qwen2_vl_block(c, layer); }) {}

// A step in time of a video is a second, unless second_per_grid_ts says otherwise.
Qwen2_5_VLModel::Qwen2_5_VLModel(const Qwen2_5_VLConfig& c)
    : QwenVLModel(c, {.frame_step = static_cast<double>(c.vision_config.as<Qwen2_5_VLVisionConfig>().tokens_per_second),
                      .counts_seconds = true}) {}

}  // namespace easydel
