// Weights of a model as codes and scales. docs/quantization.md says what each method does, and how far it may be off.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "easydel/infra/base_module.h"
#include "easydel/infra/options/quantize_options.h"
#include "easydel/quantization/method.h"

namespace easydel {

// ConfigError when the model is quantized already, no layer is meant, or calibration data is missing.
void quantize(BaseModule& model, const QuantizeOptions& options = {});
bool is_quantized(const BaseModule& model);

// Paths of the layers that these options name, in the order of the tree. ConfigError when there is none.
std::vector<std::string> layers_to_quantize(const BaseModule& module, const QuantizeOptions& options);

// The packed matrix of a layer; null when it has none.
namespace quantization {
class PackedMatrix;
std::shared_ptr<const PackedMatrix> packed_matrix(const Module& layer);
}  // namespace quantization

// Bytes of the parameters as they lie in memory; on a mesh, of all of them.
int64_t parameter_bytes(const BaseModule& module);

}  // namespace easydel
