// Mistral 3: patches of an image are merged, projected, and stand in the place of placeholder tokens.
#pragma once

#include "easydel/infra/decoder/image_text_model.h"
#include "easydel/infra/encoder/image_grids.h"
#include "easydel/models/mistral3/config.h"
#include "easydel/operations/activation.h"

namespace easydel {

class Mistral3PatchMerger : public Module {
 public:
  explicit Mistral3PatchMerger(const Mistral3Config& config);
  // [patches, D] of the images, one after the other, to [tokens, D]: what does not fill a square is left out.
  at::Tensor operator()(const at::Tensor& patches, const std::vector<ImageGrid>& grids) const;

 private:
  int64_t side_;
  const Linear& merging_layer_;
};

class Mistral3MultiModalProjector : public Module {
 public:
  explicit Mistral3MultiModalProjector(const Mistral3Config& config);
  at::Tensor operator()(const at::Tensor& patches, const std::vector<ImageGrid>& grids) const;

 private:
  const Norm& norm_;
  const Mistral3PatchMerger& patch_merger_;
  const Linear &linear_1_, &linear_2_;
  const operations::Activation& act_;
};

class Mistral3Model : public ImageTextModel, public Pretrained<Mistral3Model> {
 public:
  using ConfigType = Mistral3Config;
  explicit Mistral3Model(const Mistral3Config& config);
  std::vector<std::string> extra_inputs() const override { return {"pixel_values", "image_sizes"}; }

 protected:
  at::Tensor image_features(const PreparedInputs& given) const override;

 private:
  int64_t layer_, patch_;
  const Mistral3MultiModalProjector* projector_;
};

class Mistral3ForConditionalGeneration : public ImageTextLM<Mistral3Model>,
                                         public Pretrained<Mistral3ForConditionalGeneration> {
 public:
  using ImageTextLM::ImageTextLM;
};

}  // namespace easydel
