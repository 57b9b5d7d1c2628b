// A checkpoint with packed weights as dense tensors, without a model: what `easydel convert --dtype` writes.
#pragma once

#include <memory>

#include "easydel/core/json/json.h"
#include "easydel/io/checkpoint.h"

namespace easydel::quantization {

// The checkpoint itself where nothing is packed. `config` is the quantization_config of config.json, null without one.
// Reads the formats of formats/format.h; NotSupportedError names any other.
std::shared_ptr<const TensorSource> open_dense(std::shared_ptr<const Checkpoint> checkpoint, const Json& config);

}  // namespace easydel::quantization
