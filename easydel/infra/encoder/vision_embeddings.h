// From images to the first hidden states of a tower: patches, a class token, positions.
#pragma once

#include <optional>
#include <string>

#include "easydel/infra/encoder/encoder_config.h"
#include "easydel/infra/files/model_io.h"
#include "easydel/layers/linear.h"

namespace easydel {

// A convolution whose stride is its size: a product over flattened patches. Files hold the weight as [D, C, p, p].
class PatchProjection : public Linear {
 public:
  PatchProjection(int64_t channels, int64_t patch, int64_t hidden, bool bias, double init_stddev);
  // [B, C, height, width] to [B, patches, D], row by row; what does not fill a patch is left out.
  at::Tensor patches(const at::Tensor& pixels) const;
  std::string type_name() const override { return "Conv2d"; }

 private:
  int64_t channels_, patch_;
};

struct VisionEmbeddingsSpec {
  std::string patch_name = "patch_embedding";
  bool patch_bias = false;
  std::string class_name = "class_embedding";  // empty: no such token
  std::string position_name = "position_embedding.weight";
  bool leading_ones = false;  // the class token is [1, 1, D] and positions are [1, N, D]
  bool mask_token = false;    // a weight of pretraining, [1, D]
  bool any_size = false;      // positions are always interpolated where images have another size
};

class VisionEmbeddings : public Module {
 public:
  VisionEmbeddings(const VisionEncoderConfig& config, VisionEmbeddingsSpec spec);

  // [B, C, height, width] to [B, tokens, D]. ShapeError where images are not as large as the config says, unless
  // positions are to be interpolated.
  at::Tensor operator()(const ModelInputs& inputs) const;

 private:
  at::Tensor positions(int64_t height, int64_t width, bool interpolate) const;
  at::Tensor value_of(const Parameter& parameter) const;

  VisionEmbeddingsSpec spec_;
  int64_t hidden_, channels_, image_, patch_;
  const PatchProjection& projection_;
  std::shared_ptr<Parameter> class_token_, mask_token_, positions_;
};

}  // namespace easydel
