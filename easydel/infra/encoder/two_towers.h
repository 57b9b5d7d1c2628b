// Texts and images in one space: how alike they are, and the losses that make them so.
#pragma once

#include <string>
#include <vector>

#include "easydel/infra/base_module.h"

namespace easydel {

enum class ContrastiveLoss {
  Softmax,  // CLIP: each text picks its image among all of the batch, and each image its text
  Sigmoid,  // SigLIP: each pair is alike or not
};

// The losses are those of the whole batch, over all ranks; padding rows are not negatives.
class TwoTowerModule : public BaseModule {
 public:
  TaskType model_task() const override { return TaskType::ZeroShotImageClassification; }
  std::vector<std::string> extra_inputs() const override {
    return {"pixel_values", "return_loss", "interpolate_pos_encoding"};
  }
  void prepare_whole(PreparedInputs& inputs) const override;
  ModelOutput forward(const PreparedInputs& inputs) const override;
  ContrastiveLoss contrastive_loss() const { return similarity().loss; }

  // Vectors [rows, D] of one side alone, as get_text_features and get_image_features give them: of no length in
  // particular. On one device.
  at::Tensor text_features(const ModelInputs& inputs) const;
  at::Tensor image_features(const ModelInputs& inputs) const;

 protected:
  explicit TwoTowerModule(const BaseConfig& config) : BaseModule(config) {}

  struct Similarity {
    at::Tensor scale;  // before exp
    at::Tensor bias;   // undefined: none
    ContrastiveLoss loss = ContrastiveLoss::Softmax;
  };
  virtual Similarity similarity() const = 0;
  // What the text tower needs of the whole batch, and what the towers give for a rank's own rows.
  virtual void prepare_texts(PreparedInputs& inputs) const = 0;
  virtual at::Tensor texts_of(const PreparedInputs& inputs) const = 0;
  virtual at::Tensor images_of(const PreparedInputs& inputs) const = 0;
};

}  // namespace easydel
