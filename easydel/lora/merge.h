// Adapters into the weights of their layers; what changes of a setup have in common.
#pragma once

#include <functional>
#include <string>

#include "easydel/lora/lora_setup.h"

namespace easydel {

// ConfigError when they are merged already or none is active, NotSupportedError when a weight is tied or cannot be
// packed again. On a mesh one weight at a time is whole.
void merge_adapters(BaseModule& model, bool keep_originals);

// NotSupportedError names a layer of an active adapter that nothing can be added to.
void check_mergeable(const BaseModule& model, const LoraSetup& setup);

// The whole weight of a layer, as it is stored, with the active adapters in it; of a packed one the parts, in their
// order: the matrix of the codes with the adapters in it is packed again, by the same method. `whole` gives parameters
// by path.
std::vector<at::Tensor> merged_parts(const LoraSetup& setup, const std::string& path, const LoraLayer& layer,
                                     const std::function<at::Tensor(const std::string& path)>& whole);

// The model's setup, to which an adapter of that name may be added. ConfigError when the name is taken or no name, or
// when adapters are merged.
LoraSetup with_new_adapter(const BaseModule& model, const std::string& name, const char* where);
DType adapter_dtype(const BaseModule& model);

}  // namespace easydel
