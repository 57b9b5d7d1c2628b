// What a model's layers are given when it reads a text: the data that a8bit and a4q are tuned to.
#pragma once

#include <cstdint>
#include <vector>

#include "easydel/quantization/quantize.h"

namespace easydel {

struct CalibrateOptions {
  int64_t window = 512;       // tokens of a piece
  int64_t max_tokens = 8192;  // of the text, from its beginning
};

// Runs the model over the tokens, and notes of each plain linear layer the mean |x|, mean x² and largest |x| by
// channel. ConfigError on no tokens. On a mesh all ranks call this together, and get the same.
std::shared_ptr<const Calibration> calibrate(BaseModule& model, const std::vector<int64_t>& ids,
                                             const CalibrateOptions& options = {});

// How far the packed weights are from these dense ones: |W - W'| / |W| in the Frobenius norm, by layer.
struct LayerError {
  std::string path;
  double relative = 0;
};
// The dense weights of layers, kept to be compared with.
std::map<std::string, std::shared_ptr<Parameter>> dense_weights(const BaseModule& model,
                                                                const std::vector<std::string>& layers);
std::vector<LayerError> layer_errors(const BaseModule& quantized,
                                     const std::map<std::string, std::shared_ptr<Parameter>>& dense);

}  // namespace easydel
