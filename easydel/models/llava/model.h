// LLaVA: features of pictures stand in the place of placeholder tokens.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/infra/decoder/sees_pictures.h"
#include "easydel/infra/files/weights.h"
#include "easydel/models/llava/config.h"
#include "easydel/operations/activation.h"

namespace easydel {

class LlavaMultiModalProjector : public Module {
 public:
  explicit LlavaMultiModalProjector(const LlavaConfig& config);
  at::Tensor operator()(const at::Tensor& features) const;

 private:
  const Linear &linear_1_, &linear_2_;
  const operations::Activation& act_;
};

class LlavaModel : public BaseModule, public Pretrained<LlavaModel>, public OlderFileNames, public SeesPictures {
 public:
  using ConfigType = LlavaConfig;
  explicit LlavaModel(const LlavaConfig& config);
  std::vector<std::string> extra_inputs() const override { return {"pixel_values"}; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;  // numbers the placeholders
  std::vector<std::string> older_names(const std::string& path) const override;

  int64_t image_token_id() const override { return own_.image_token_index; }
  at::Tensor picture_features(const ModelInputs& pictures) const override;
  at::Tensor embed_with_pictures(const at::Tensor& ids_BT, const at::Tensor& features,
                                 const at::Tensor& places) const override;

  const Embedding& embeddings() const { return *embeddings_; }

 private:
  // [images, tokens, D] of a tower's hidden states.
  at::Tensor image_features(const at::Tensor& pixels, const PreparedInputs& inputs) const;
  at::Tensor embed_tokens(const at::Tensor& ids_BT) const;
  at::Tensor with_images(const at::Tensor& embeds_BTD, const PreparedInputs& inputs, ModelOutput& out) const;

  const LlavaConfig own_;
  BaseModule* vision_tower_ = nullptr;
  const LlavaMultiModalProjector* projector_ = nullptr;
  BaseModule* language_model_ = nullptr;
  const Embedding* embeddings_ = nullptr;
};

class LlavaForConditionalGeneration : public CausalLMModule,
                                      public Pretrained<LlavaForConditionalGeneration>,
                                      public OlderFileNames,
                                      public SeesPictures {
 public:
  using ConfigType = LlavaConfig;
  explicit LlavaForConditionalGeneration(const LlavaConfig& config);
  TaskType model_task() const override { return TaskType::ImageTextToText; }
  std::vector<std::string> extra_inputs() const override { return {"pixel_values"}; }
  std::string torch_path(const std::string& path) const override { return path; }
  void prepare_whole(PreparedInputs& inputs) const override;
  std::vector<std::string> older_names(const std::string& path) const override;

  int64_t image_token_id() const override { return model_.image_token_id(); }
  at::Tensor picture_features(const ModelInputs& pictures) const override { return model_.picture_features(pictures); }
  at::Tensor embed_with_pictures(const at::Tensor& ids_BT, const at::Tensor& features,
                                 const at::Tensor& places) const override {
    return model_.embed_with_pictures(ids_BT, features, places);
  }

 private:
  LlavaModel& model_;
};

}  // namespace easydel
