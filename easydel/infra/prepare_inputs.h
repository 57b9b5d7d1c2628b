// The inputs of a forward: checked, and completed with what follows from the rest.
#pragma once

#include "easydel/infra/files/model_io.h"

namespace easydel {

class BaseModule;

// ConfigError and ShapeError name the input at fault; Error when the model has no weights yet.
void check_inputs(const BaseModule& model, const ModelInputs& inputs);
// Fills in positions and the mask, and takes a rank's part of the batch on a mesh.
PreparedInputs prepare_inputs_for_call(const BaseModule& model, ModelInputs inputs);

}  // namespace easydel
