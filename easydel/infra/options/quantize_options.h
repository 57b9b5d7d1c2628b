// How weights are quantized: what quantize(), loading, a config.json, a run's file and the command line ask for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {

class FieldVisitor;

namespace quantization {
struct ChannelStatistics;  // quantization/method.h
}

// What calibration data showed of the inputs of each layer, by the layer's path; see quantization/calibrate.h.
using Calibration = std::map<std::string, quantization::ChannelStatistics>;

// docs/quantization.md says what each method does.
struct QuantizeOptions {
  std::string method = "8bit";  // 8bit, nf4, int4, a8bit, a8q, a4q, fp8, mxfp4, uint4
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

  friend bool operator==(const QuantizeOptions&, const QuantizeOptions&) = default;
};
using QuantizationConfig = QuantizeOptions;

void list_fields(QuantizeOptions& options, FieldVisitor& v);
// EasyDeL's mapping, {"dtype": "nf4", "group_size": 64, "pattern": "…"}, over what `options` has. `where` makes the
// beginning of an error from a key. ConfigError on any other key that would have an effect.
void read_mapping(QuantizeOptions& options, const Json& mapping,
                  const std::function<std::string(std::string_view)>& where);

}  // namespace easydel
