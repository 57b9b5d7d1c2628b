// Mamba 2: Mamba with heads, whose states are computed by products of matrices.
#pragma once

#include "easydel/models/mamba/model.h"
#include "easydel/models/mamba2/config.h"

namespace easydel {

class Mamba2Block : public StateSpaceBlock<Mamba2Mixer, Mamba2Spec> {
 public:
  Mamba2Block(const Mamba2Config& config, int64_t layer_idx);
};

class Mamba2Model : public StateSpaceModel<Mamba2Config, Mamba2Block>, public Pretrained<Mamba2Model> {
 public:
  using StateSpaceModel::StateSpaceModel;
};

class Mamba2ForCausalLM : public ForCausalLM<Mamba2Model>, public Pretrained<Mamba2ForCausalLM> {
 public:
  explicit Mamba2ForCausalLM(const Mamba2Config& config) : ForCausalLM(config, "backbone") {}
};

}  // namespace easydel
