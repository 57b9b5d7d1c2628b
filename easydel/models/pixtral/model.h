// Pixtral's tower: the patches of all images lie in one row, and each attends to those of its own image.
#pragma once

#include "easydel/infra/auto_model.h"
#include "easydel/infra/encoder/image_classification.h"
#include "easydel/infra/encoder/image_grids.h"
#include "easydel/infra/encoder/vision_embeddings.h"
#include "easydel/layers/decoder_block.h"
#include "easydel/layers/forward_context.h"
#include "easydel/models/pixtral/config.h"

namespace easydel {

class PixtralAttentionLayer : public DecoderBlock {
 public:
  PixtralAttentionLayer(const PixtralVisionConfig& config, int64_t layer_idx);
};

class PixtralTransformer : public Module {
 public:
  explicit PixtralTransformer(const PixtralVisionConfig& config);
  std::vector<const DecoderLayer*> layers() const { return {layers_.begin(), layers_.end()}; }

 private:
  ModuleList<PixtralAttentionLayer>& layers_;
};

class PixtralVisionModel : public ImageModule, public Pretrained<PixtralVisionModel> {
 public:
  using ConfigType = PixtralVisionConfig;
  explicit PixtralVisionModel(const PixtralVisionConfig& config);
  std::vector<std::string> extra_inputs() const override { return {"pixel_values", "image_sizes"}; }
  void prepare_whole(PreparedInputs& inputs) const override;
  // Hidden states are [1, patches of all images, D].
  ModelOutput forward(const PreparedInputs& inputs) const override;

 private:
  operations::RopeTable rope_table(const std::vector<ImageGrid>& grids, at::Device device) const;

  int64_t patch_;
  const PatchProjection& patch_conv_;
  const Norm& ln_pre_;
  const PixtralTransformer& transformer_;
};

}  // namespace easydel
