// LLaVA: hidden states of a tower, projected, stand in the place of placeholder tokens.
#pragma once

#include <vector>

#include "easydel/infra/decoder/image_text_model.h"
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

class LlavaModel : public ImageTextModel, public Pretrained<LlavaModel> {
 public:
  using ConfigType = LlavaConfig;
  explicit LlavaModel(const LlavaConfig& config);

 protected:
  at::Tensor image_features(const PreparedInputs& given) const override;

 private:
  const std::vector<int64_t> layers_;
  const bool drops_first_;  // the class token of a tower
  const LlavaMultiModalProjector* projector_;
};

class LlavaForConditionalGeneration : public ImageTextLM<LlavaModel>, public Pretrained<LlavaForConditionalGeneration> {
 public:
  using ImageTextLM::ImageTextLM;
};

}  // namespace easydel
