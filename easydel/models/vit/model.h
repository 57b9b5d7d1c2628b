// ViT: images as sequences of patches.
#pragma once

#include "easydel/infra/auto_model.h"
#include "easydel/infra/encoder/encoder.h"
#include "easydel/infra/encoder/image_classification.h"
#include "easydel/infra/encoder/vision_embeddings.h"
#include "easydel/models/vit/config.h"
#include "easydel/operations/activation.h"

namespace easydel {

class ViTLayer : public DecoderBlock {
 public:
  ViTLayer(const ViTConfig& config, int64_t layer_idx);
};

class ViTPooler : public Module {
 public:
  explicit ViTPooler(const ViTConfig& config);
  at::Tensor operator()(const at::Tensor& hidden) const;

 private:
  const Linear& dense_;
  const operations::Activation& act_;
};

class ViTModel : public ImageModule, public Pretrained<ViTModel> {
 public:
  using ConfigType = ViTConfig;
  explicit ViTModel(const ViTConfig& config) : ViTModel(config, /*pools=*/true) {}
  ViTModel(const ViTConfig& config, bool pools);
  ModelOutput forward(const PreparedInputs& inputs) const override;

 private:
  const VisionEmbeddings& embeddings_;
  ModuleList<ViTLayer>& layers_;
  const Norm& layernorm_;
  const ViTPooler* pooler_ = nullptr;
};

class ViTForImageClassification : public ImageClassificationModule, public Pretrained<ViTForImageClassification> {
 public:
  using ConfigType = ViTConfig;
  explicit ViTForImageClassification(const ViTConfig& config);

 protected:
  at::Tensor pooled(const at::Tensor& hidden) const override { return hidden.select(1, 0); }
};

}  // namespace easydel
