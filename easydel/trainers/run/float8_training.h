// Float8 training: which linear layers of a model multiply in float8.
#pragma once

#include "easydel/infra/base_module.h"
#include "easydel/operations/linear/float8.h"

namespace easydel {

struct Float8Layers {
  int64_t converted = 0, left = 0;  // linear maps inside the model's layers; the others do not count
};

// Those inside of decoder and encoder layers, except routers and maps with a size that is not a multiple of 16.
// Embeddings, heads and stacked experts stay. A model that is rebuilt from the state has the same. ConfigError with
// adapters and with quantized weights, and if no map is left; NotSupportedError on a GPU without float8 products.
Float8Layers train_in_float8(BaseModule& model, operations::Float8Scales scales);

}  // namespace easydel
