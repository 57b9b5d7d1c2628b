// A model to and from a torch state dict.
#pragma once

#include "easydel/infra/state/graph.h"

namespace easydel {

// The state dict that the transformers class of get_torch_loader() takes, tied weights under both names.
TensorMap to_torch(const BaseModule& model);
// A torch state dict, in the spelling of files or of transformers' memory, as parameters of this model.
GraphState transform_fn(const BaseModule& model, const TensorMap& torch_state_dict);

}  // namespace easydel
