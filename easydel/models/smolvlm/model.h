// SmolVLM: images in tiles, of any shape; squares of patches become the features of placeholder tokens.
#pragma once

#include "easydel/infra/decoder/image_text_model.h"
#include "easydel/infra/encoder/encoder.h"
#include "easydel/infra/encoder/image_classification.h"
#include "easydel/infra/encoder/vision_embeddings.h"
#include "easydel/models/smolvlm/config.h"

namespace easydel {

// Positions are shares of an image's height and width: smaller ones spread over the same table.
class SmolVLMVisionEmbeddings : public Module {
 public:
  explicit SmolVLMVisionEmbeddings(const SmolVLMVisionConfig& config);
  // Of pixels [B, C, height, width] and the patches [B, rows, columns] that are not padding.
  at::Tensor operator()(const at::Tensor& pixels, const at::Tensor& is_patch) const;

 private:
  int64_t side_, channels_, patch_;
  const PatchProjection& patch_embedding_;
  const Embedding& position_embedding_;
};

class SmolVLMVisionTransformer : public ImageModule, public Pretrained<SmolVLMVisionTransformer> {
 public:
  using ConfigType = SmolVLMVisionConfig;
  explicit SmolVLMVisionTransformer(const SmolVLMVisionConfig& config);
  std::vector<std::string> extra_inputs() const override { return {"pixel_values", "pixel_attention_mask"}; }
  void prepare_whole(PreparedInputs& inputs) const override;
  ModelOutput forward(const PreparedInputs& inputs) const override;

 private:
  int64_t patch_;
  const SmolVLMVisionEmbeddings& embeddings_;
  const Encoder& encoder_;
  const Norm& post_layernorm_;
};

class SmolVLMSimpleMLP : public Module {
 public:
  explicit SmolVLMSimpleMLP(const SmolVLMConfig& config);
  at::Tensor operator()(const at::Tensor& x) const { return proj_(x); }

 private:
  const Linear& proj_;
};

class SmolVLMConnector : public Module {
 public:
  explicit SmolVLMConnector(const SmolVLMConfig& config);
  at::Tensor operator()(const at::Tensor& patches) const;  // [images, patches, tower's D] to [images, tokens, D]

 private:
  int64_t scale_;
  const SmolVLMSimpleMLP& modality_projection_;
};

class SmolVLMModel : public ImageTextModel, public Pretrained<SmolVLMModel> {
 public:
  using ConfigType = SmolVLMConfig;
  explicit SmolVLMModel(const SmolVLMConfig& config);
  std::vector<std::string> extra_inputs() const override { return {"pixel_values", "pixel_attention_mask"}; }
  // Images by row, [B, images, C, height, width], are taken too: those that are zeros only fill up a row.
  void prepare_whole(PreparedInputs& inputs) const override;

 protected:
  at::Tensor image_features(const PreparedInputs& given) const override;

 private:
  const SmolVLMConnector* connector_;
};

class SmolVLMForConditionalGeneration : public ImageTextModule, public Pretrained<SmolVLMForConditionalGeneration> {
 public:
  using ConfigType = SmolVLMConfig;
  explicit SmolVLMForConditionalGeneration(const SmolVLMConfig& config);
};

}  // namespace easydel
