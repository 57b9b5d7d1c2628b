// Classes of images: a tower and a linear map of what it says of each.
#pragma once

#include <string>
#include <vector>

#include "easydel/infra/base_module.h"
#include "easydel/layers/linear.h"

namespace easydel {

// What models whose main input are images have in common.
class ImageModule : public BaseModule {
 public:
  TaskType model_task() const override { return TaskType::VisionModule; }
  std::string main_input_name() const override { return "pixel_values"; }
  std::vector<std::string> extra_inputs() const override { return {"pixel_values", "interpolate_pos_encoding"}; }

 protected:
  explicit ImageModule(const BaseConfig& config) : BaseModule(config) {}
};

class ImageClassificationModule : public ImageModule {
 public:
  TaskType model_task() const override { return TaskType::ImageClassification; }
  std::string base_model_prefix() const override { return prefix_; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 protected:
  ImageClassificationModule(const BaseConfig& config, std::string prefix)
      : ImageModule(config), prefix_(std::move(prefix)) {}
  // Adds the classifier behind the tower, which reads `features` numbers for each image.
  void add_head(BaseModule& tower, int64_t features, double init_stddev);
  // [B, features] of the tower's hidden states [B, T, D].
  virtual at::Tensor pooled(const at::Tensor& hidden) const = 0;

 private:
  std::string prefix_;
  BaseModule* tower_ = nullptr;
  Linear* classifier_ = nullptr;
};

}  // namespace easydel
