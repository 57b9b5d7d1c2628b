// Pixtral's tower: images of any size, with rotary positions in two directions.
#pragma once

#include "easydel/infra/encoder/encoder_config.h"

namespace easydel {

// One half of a head turns with the row of a patch, the other with its column.
struct AxialRope {
  double rope_theta = 10000.0;
  std::string rope_type = "axial";
};
void list_fields(AxialRope& rope, FieldVisitor& v);

struct PixtralVisionConfig : Config<PixtralVisionConfig, VisionEncoderConfig> {
  static constexpr std::string_view kModelType = "pixtral";
  PixtralVisionConfig();

  AxialRope rope_parameters;

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;
};

}  // namespace easydel
