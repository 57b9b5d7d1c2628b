// CLIP: texts and images in one space.
#pragma once

#include "easydel/infra/auto_model.h"
#include "easydel/infra/encoder/encoder.h"
#include "easydel/infra/encoder/image_classification.h"
#include "easydel/infra/encoder/two_towers.h"
#include "easydel/infra/encoder/vision_embeddings.h"
#include "easydel/models/clip/config.h"

namespace easydel {

class CLIPTextModel : public BaseModule, public Pretrained<CLIPTextModel> {
 public:
  using ConfigType = CLIPTextConfig;
  explicit CLIPTextModel(const CLIPTextConfig& config);
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;  // finds the token that represents a text

 private:
  const TextEmbeddings& embeddings_;
  const Encoder& encoder_;
  const Norm& final_layer_norm_;
};

class CLIPVisionModel : public ImageModule, public Pretrained<CLIPVisionModel> {
 public:
  using ConfigType = CLIPVisionConfig;
  explicit CLIPVisionModel(const CLIPVisionConfig& config);
  ModelOutput forward(const PreparedInputs& inputs) const override;

 private:
  const VisionEmbeddings& embeddings_;
  const Norm& pre_layrnorm_;
  const Encoder& encoder_;
  const Norm& post_layernorm_;
};

class CLIPTextModelWithProjection : public BaseModule, public Pretrained<CLIPTextModelWithProjection> {
 public:
  using ConfigType = CLIPTextConfig;
  explicit CLIPTextModelWithProjection(const CLIPTextConfig& config);
  std::string base_model_prefix() const override { return "text_model"; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override { text_model_.prepare_whole(inputs); }

 private:
  const CLIPTextModel& text_model_;
  const Linear& text_projection_;
};

class CLIPVisionModelWithProjection : public ImageModule, public Pretrained<CLIPVisionModelWithProjection> {
 public:
  using ConfigType = CLIPVisionConfig;
  explicit CLIPVisionModelWithProjection(const CLIPVisionConfig& config);
  std::string base_model_prefix() const override { return "vision_model"; }
  ModelOutput forward(const PreparedInputs& inputs) const override;

 private:
  const CLIPVisionModel& vision_model_;
  const Linear& visual_projection_;
};

class CLIPModel : public TwoTowerModule, public Pretrained<CLIPModel> {
 public:
  using ConfigType = CLIPConfig;
  explicit CLIPModel(const CLIPConfig& config);

 protected:
  Similarity similarity() const override;
  void prepare_texts(PreparedInputs& inputs) const override { text_model_.prepare_whole(inputs); }
  at::Tensor texts_of(const PreparedInputs& inputs) const override;
  at::Tensor images_of(const PreparedInputs& inputs) const override;

 private:
  const CLIPTextModel& text_model_;
  const CLIPVisionModel& vision_model_;
  const Linear &visual_projection_, &text_projection_;
  std::shared_ptr<Parameter> logit_scale_;
};

class CLIPForImageClassification : public ImageClassificationModule, public Pretrained<CLIPForImageClassification> {
 public:
  using ConfigType = CLIPConfig;
  explicit CLIPForImageClassification(const CLIPConfig& config);

 protected:
  at::Tensor pooled(const at::Tensor& hidden) const override;  // the mean of the patches
};

}  // namespace easydel
