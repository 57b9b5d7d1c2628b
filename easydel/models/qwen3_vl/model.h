// Qwen3-VL: features of several layers of the tower, positions interleaved in the rotary table.
#pragma once

#include "easydel/models/qwen2_vl/model.h"
#include "easydel/models/qwen3_vl/config.h"

namespace easydel {

class Qwen3VLVisionModel : public PatchTower, public Pretrained<Qwen3VLVisionModel> {
 public:
  using ConfigType = Qwen3VLVisionConfig;
  explicit Qwen3VLVisionModel(const Qwen3VLVisionConfig& config);
};

class Qwen3VLTextModel : public MropeDecoder, public Pretrained<Qwen3VLTextModel> {
 public:
  using ConfigType = Qwen3VLTextConfig;
  explicit Qwen3VLTextModel(const Qwen3VLTextConfig& config);
};

class Qwen3VLModel : public QwenVLModel, public Pretrained<Qwen3VLModel> {
 public:
  using ConfigType = Qwen3VLConfig;
  explicit Qwen3VLModel(const Qwen3VLConfig& config) : QwenVLModel(config, {.frames_apart = true}) {}
};

class Qwen3VLForConditionalGeneration : public QwenVLForConditionalGeneration<Qwen3VLModel>,
                                        public Pretrained<Qwen3VLForConditionalGeneration> {
 public:
  explicit Qwen3VLForConditionalGeneration(const Qwen3VLConfig& config)
      : QwenVLForConditionalGeneration(config, /*renames=*/false) {}
};

}  // namespace easydel
