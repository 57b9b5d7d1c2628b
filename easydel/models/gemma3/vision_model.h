// Gemma 3 with images: a SigLIP tower with pooled patches, and bidirectional attention within the tokens of an image.
#pragma once

#include "easydel/infra/decoder/image_text_model.h"
#include "easydel/models/gemma3/config.h"

namespace easydel {

class Gemma3MultiModalProjector : public Module {
 public:
  explicit Gemma3MultiModalProjector(const Gemma3Config& config);
  at::Tensor operator()(const at::Tensor& patches) const;  // [images, patches, tower's D] to [images, tokens, D]

 private:
  int64_t side_, pooled_;
  std::shared_ptr<Parameter> weight_;
  const Norm& norm_;
};

class Gemma3Model : public ImageTextModel, public Pretrained<Gemma3Model> {
 public:
  using ConfigType = Gemma3Config;
  explicit Gemma3Model(const Gemma3Config& config);
  // Where token_type_ids are 1, the tokens of an image attend to each other, as in transformers.
  void prepare_whole(PreparedInputs& inputs) const override;
  bool needs_whole_images() const override { return true; }

 protected:
  at::Tensor image_features(const PreparedInputs& given) const override;

 private:
  const Gemma3MultiModalProjector* projector_;
};

// Without the soft cap of logits that the text model has, as in transformers.
class Gemma3ForConditionalGeneration : public ImageTextLM<Gemma3Model>,
                                       public Pretrained<Gemma3ForConditionalGeneration> {
 public:
  using ImageTextLM::ImageTextLM;
};

}  // namespace easydel
