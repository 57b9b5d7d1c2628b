// DINOv2: features of images.
#pragma once

#include "easydel/infra/auto_model.h"
#include "easydel/infra/encoder/encoder.h"
#include "easydel/infra/encoder/image_classification.h"
#include "easydel/infra/encoder/vision_embeddings.h"
#include "easydel/models/dinov2/config.h"

namespace easydel {

class Dinov2LayerScale : public Module {
 public:
  explicit Dinov2LayerScale(const Dinov2Config& config);
  at::Tensor operator()(const at::Tensor& x) const;

 private:
  std::shared_ptr<Parameter> lambda1_;
};

class Dinov2Layer : public DecoderLayer {
 public:
  Dinov2Layer(const Dinov2Config& config, int64_t layer_idx);
  LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;

 private:
  const Norm& norm1_;
  const Attention& attention_;
  const Dinov2LayerScale& layer_scale1_;
  const Norm& norm2_;
  const MLP& mlp_;
  const Dinov2LayerScale& layer_scale2_;
};

class Dinov2Encoder : public Module {
 public:
  explicit Dinov2Encoder(const Dinov2Config& config);
  std::vector<const DecoderLayer*> layers() const { return {layer_.begin(), layer_.end()}; }

 private:
  ModuleList<Dinov2Layer>& layer_;
};

class Dinov2Model : public ImageModule, public Pretrained<Dinov2Model> {
 public:
  using ConfigType = Dinov2Config;
  explicit Dinov2Model(const Dinov2Config& config);
  std::vector<std::string> extra_inputs() const override { return {"pixel_values"}; }
  ModelOutput forward(const PreparedInputs& inputs) const override;

 private:
  const VisionEmbeddings& embeddings_;
  const Dinov2Encoder& encoder_;
  const Norm& layernorm_;
};

class Dinov2ForImageClassification : public ImageClassificationModule, public Pretrained<Dinov2ForImageClassification> {
 public:
  using ConfigType = Dinov2Config;
  explicit Dinov2ForImageClassification(const Dinov2Config& config);
  std::vector<std::string> extra_inputs() const override { return {"pixel_values"}; }

 protected:
  at::Tensor pooled(const at::Tensor& hidden) const override;  // the class token beside the mean of the patches
};

}  // namespace easydel
