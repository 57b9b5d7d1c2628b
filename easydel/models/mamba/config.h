// Mamba: a selective state space for each channel, and no attention.
#pragma once

#include <optional>
#include <string>

#include "easydel/infra/config/config.h"

namespace easydel {

// What the configs of Mamba and Mamba 2 have in common. They have no attention: what BaseConfig says of heads and
// positions is not theirs.
struct StateSpaceConfig : BaseConfig {
  int64_t state_size = 16;
  double layer_norm_epsilon = 1e-5;
  int64_t expand = 2;
  int64_t conv_kernel = 4;
  bool use_bias = false;
  bool use_conv_bias = true;
  bool residual_in_fp32 = true;
  Json time_step_rank = "auto";  // or a number
  double time_step_min = 0.001;
  double time_step_max = 0.1;
  double time_step_floor = 1e-4;
  bool rescale_prenorm_residual = false;

  int64_t inner_size() const { return expand * hidden_size; }
  int64_t time_steps() const { return time_step_rank.as_int(); }

  void post_init() override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;

 protected:
  StateSpaceConfig();
  void state_space_fields(FieldVisitor& v);
};

struct MambaConfig : Config<MambaConfig, StateSpaceConfig> {
  static constexpr std::string_view kModelType = "mamba";

  MambaConfig();

  double time_step_scale = 1.0;
  std::string time_step_init_scheme = "random";
  bool use_mambapy = false;
  bool use_associative_scan = true;

  void fields(FieldVisitor& v) override;
  void post_init() override;
};

}  // namespace easydel
