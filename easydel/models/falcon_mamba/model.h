// Falcon Mamba: Mamba whose time steps, B and C are normalized.
#pragma once

#include "easydel/models/falcon_mamba/config.h"
#include "easydel/models/mamba/model.h"

namespace easydel {

class FalconMambaMixer : public MambaMixer {
 public:
  using MambaMixer::MambaMixer;
};

class FalconMambaBlock : public StateSpaceBlock<FalconMambaMixer, MambaSpec> {
 public:
  FalconMambaBlock(const FalconMambaConfig& config, int64_t layer_idx);
};

class FalconMambaModel : public StateSpaceModel<FalconMambaConfig, FalconMambaBlock>,
                         public Pretrained<FalconMambaModel> {
 public:
  using StateSpaceModel::StateSpaceModel;
};

class FalconMambaForCausalLM : public ForCausalLM<FalconMambaModel>, public Pretrained<FalconMambaForCausalLM> {
 public:
  explicit FalconMambaForCausalLM(const FalconMambaConfig& config) : ForCausalLM(config, "backbone") {}
};

}  // namespace easydel
