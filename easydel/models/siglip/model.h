// SigLIP: texts and images in one space, pair by pair.
#pragma once

#include "easydel/infra/auto_model.h"
#include "easydel/infra/encoder/encoder.h"
#include "easydel/infra/encoder/image_classification.h"
#include "easydel/infra/encoder/two_towers.h"
#include "easydel/infra/encoder/vision_embeddings.h"
#include "easydel/models/siglip/config.h"

namespace easydel {

class SiglipTextModel : public BaseModule, public Pretrained<SiglipTextModel> {
 public:
  using ConfigType = SiglipTextConfig;
  explicit SiglipTextModel(const SiglipTextConfig& config);
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;  // every token attends to every other

 private:
  const TextEmbeddings& embeddings_;
  const Encoder& encoder_;
  const Norm& final_layer_norm_;
  const Linear& head_;
};

// torch's MultiheadAttention of one learned query: in_proj_weight has queries, keys and values. Whole on every rank.
class SiglipPoolingAttention : public Module {
 public:
  explicit SiglipPoolingAttention(const SiglipVisionConfig& config);
  at::Tensor operator()(const at::Tensor& query_B1D, const at::Tensor& hidden_BTD) const;

 private:
  int64_t heads_;
  std::shared_ptr<Parameter> in_weight_, in_bias_;
  const Linear& out_;
};

class SiglipMultiheadAttentionPoolingHead : public Module {
 public:
  explicit SiglipMultiheadAttentionPoolingHead(const SiglipVisionConfig& config);
  at::Tensor operator()(const at::Tensor& hidden_BTD) const;  // [B, D]

 private:
  std::shared_ptr<Parameter> probe_;
  const SiglipPoolingAttention& attention_;
  const Norm& layernorm_;
  const MLP& mlp_;
};

class SiglipVisionModel : public ImageModule, public Pretrained<SiglipVisionModel> {
 public:
  using ConfigType = SiglipVisionConfig;
  explicit SiglipVisionModel(const SiglipVisionConfig& config);
  ModelOutput forward(const PreparedInputs& inputs) const override;

 private:
  const VisionEmbeddings& embeddings_;
  const Encoder& encoder_;
  const Norm& post_layernorm_;
  const SiglipMultiheadAttentionPoolingHead* head_ = nullptr;
};

class SiglipModel : public TwoTowerModule, public Pretrained<SiglipModel> {
 public:
  using ConfigType = SiglipConfig;
  explicit SiglipModel(const SiglipConfig& config);

 protected:
  Similarity similarity() const override;
  void prepare_texts(PreparedInputs& inputs) const override { text_model_.prepare_whole(inputs); }
  at::Tensor texts_of(const PreparedInputs& inputs) const override;
  at::Tensor images_of(const PreparedInputs& inputs) const override;

 private:
  const SiglipTextModel& text_model_;
  const SiglipVisionModel& vision_model_;
  std::shared_ptr<Parameter> logit_scale_, logit_bias_;
};

class SiglipForImageClassification : public ImageClassificationModule, public Pretrained<SiglipForImageClassification> {
 public:
  using ConfigType = SiglipConfig;
  explicit SiglipForImageClassification(const SiglipConfig& config);

 protected:
  at::Tensor pooled(const at::Tensor& hidden) const override { return hidden.mean(1); }
};

}  // namespace easydel
