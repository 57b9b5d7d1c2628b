// The mixer: layers/recurrent/mamba.cpp; the layer and the model: models/mamba/model.h.
#include "easydel/models/falcon_mamba/model.h"

namespace easydel {
namespace {

MambaSpec normed_mixer(const FalconMambaConfig& c, int64_t layer_idx) {
  MambaSpec spec = mamba_spec(c, layer_idx);
  spec.rms_eps = c.mixer_rms_eps;
  return spec;
}

}  // namespace

FalconMambaBlock::FalconMambaBlock(const FalconMambaConfig& c, int64_t layer_idx)
    : StateSpaceBlock(c, normed_mixer(c, layer_idx)) {}

}  // namespace easydel
