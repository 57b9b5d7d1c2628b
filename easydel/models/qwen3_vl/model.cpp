#include "easydel/models/qwen3_vl/model.h"

namespace easydel {
namespace {

PatchTowerSpec qwen3_tower(const Qwen3VLVisionConfig& c) {
  PatchTowerSpec spec = tower_spec(c);
  spec.mlp_width = c.intermediate_size;
  spec.patch_bias = true;
  spec.up_name = "linear_fc1";
  spec.down_name = "linear_fc2";
  spec.positions = c.num_position_embeddings;
  spec.deep_layers = c.deepstack_visual_indexes;
  spec.norm_name = "norm";
  spec.first_name = "linear_fc1";
  spec.second_name = "linear_fc2";
  return spec;
}

BlockSpec qwen3_vl_block(const Qwen3VLTextConfig& c, int64_t layer) {
  BlockSpec spec = block_spec(c, layer);
  spec.attention.qk_norm = HeadNormSpec{.norm = spec.norm};
  return spec;
}

}  // namespace

Qwen3VLVisionModel::Qwen3VLVisionModel(const Qwen3VLVisionConfig& c) : PatchTower(c, qwen3_tower(c)) {}

Qwen3VLTextModel::Qwen3VLTextModel(const Qwen3VLTextConfig& c)
    : MropeDecoder(c, sections_interleaved(c.sections(), c.head_size() / 2),
                   [&](int64_t layer) { return qwen3_vl_block(c, layer); }) {}

}  // namespace easydel
