// Qwen2.5-VL: Qwen2-VL with windows in the tower.
#pragma once

#include "easydel/models/qwen2_5_vl/config.h"
#include "easydel/models/qwen2_vl/model.h"

namespace easydel {

class Qwen2_5_VisionTransformerPretrainedModel : public PatchTower,
                                                 public Pretrained<Qwen2_5_VisionTransformerPretrainedModel> {
 public:
  using ConfigType = Qwen2_5_VLVisionConfig;
  explicit Qwen2_5_VisionTransformerPretrainedModel(const Qwen2_5_VLVisionConfig& config);
};

class Qwen2_5_VLTextModel : public MropeDecoder, public Pretrained<Qwen2_5_VLTextModel> {
 public:
  using ConfigType = Qwen2_5_VLTextConfig;
  explicit Qwen2_5_VLTextModel(const Qwen2_5_VLTextConfig& config);
};

class Qwen2_5_VLModel : public QwenVLModel, public Pretrained<Qwen2_5_VLModel> {
 public:
  using ConfigType = Qwen2_5_VLConfig;
  explicit Qwen2_5_VLModel(const Qwen2_5_VLConfig& config);
};

class Qwen2_5_VLForConditionalGeneration : public QwenVLForConditionalGeneration<Qwen2_5_VLModel>,
                                           public Pretrained<Qwen2_5_VLForConditionalGeneration> {
 public:
  explicit Qwen2_5_VLForConditionalGeneration(const Qwen2_5_VLConfig& config)
      : QwenVLForConditionalGeneration(config) {}
};

}  // namespace easydel
