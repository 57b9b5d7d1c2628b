// Weights of a model as codes and scales. docs/quantization.md says what each method does, and how far it may be off.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "easydel/infra/base_module.h"
#include "easydel/quantization/method.h"

namespace easydel {

// What calibration data showed of the inputs of each layer, by the layer's path; see quantization/calibrate.h.
using Calibration = std::map<std::string, quantization::ChannelStatistics>;

struct QuantizeOptions {
  std::string method = "8bit";  // 8bit, nf4, int4, a8bit, a8q, a4q
  int64_t group_size = 0;       // columns that share a scale; 0: the method's own
  // Found anywhere in a layer's path, as partition rules are. Empty: all linear layers but heads and routers.
  std::string pattern = {};
  bool double_quant = false;  // of nf4: the scales are codes too
  // "kernel" or "weight": linear layers; "embedding": tables, and a head that is tied to one. Empty: linear layers, and
  // with a pattern whatever it finds.
  std::vector<std::string> bit_targeted_params = {};
  bool quantize_tensors = true;  // false: everything is checked, and the weights stay as they are
  bool verbose = false;          // says how many bytes there were and are
  std::shared_ptr<const Calibration> calibration = {};  // for a8bit and a4q
};
using QuantizationConfig = QuantizeOptions;

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
