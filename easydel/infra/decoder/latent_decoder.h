// What decoders with latent attention have in common.
#pragma once

#include "easydel/infra/config/moe_config.h"
#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/attention/latent_attention.h"

namespace easydel {

// The attention of a layer, in the sizes of the config; neighbours turn together.
LatentAttentionSpec latent_attention_spec(const LatentMoeConfig& config, int64_t layer_idx);

}  // namespace easydel
