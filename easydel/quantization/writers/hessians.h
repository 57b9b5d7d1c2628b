// The second moments of what a model's layers are given when it reads a text.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "easydel/infra/base_module.h"

namespace easydel::quantization {

using Hessians = std::map<std::string, at::Tensor>;  // the mean of x x^T, float32 [in, in], by the layer's path

// Of the plain linear layers, over the first `max_tokens` tokens in windows of 512. ConfigError on no tokens, and on a
// mesh.
Hessians layer_hessians(BaseModule& model, const std::vector<int64_t>& ids, int64_t max_tokens);

}  // namespace easydel::quantization
