// What the configs of encoders have in common, of texts and of images: their fields, their rules, and how their
// weights are split.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "easydel/infra/config/config.h"

namespace easydel {

// A family derives from Config<Family, EncoderConfig>, and lists in fields() the common ones and its own.
struct EncoderConfig : BaseConfig {
  double norm_eps = 1e-5;
  double attention_dropout = 0.0;
  double hidden_dropout = 0.0;
  bool qkv_bias = true;

  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;

 protected:
  const char* attention_dropout_key_ = "attention_dropout";
  // Sizes, activation, the norms' epsilon, dropout of the attention.
  void encoder_fields(FieldVisitor& v);
};

// Images are square, and cut into square patches.
struct VisionEncoderConfig : EncoderConfig {
  int64_t image_size = 224;
  int64_t patch_size = 16;
  int64_t num_channels = 3;

  int64_t num_patches() const { return (image_size / patch_size) * (image_size / patch_size); }
  void validate() const override;

 protected:
  void image_fields(FieldVisitor& v);
};

}  // namespace easydel
