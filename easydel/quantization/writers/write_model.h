// Writes a model with its linear layers in a format that other programs read.
#pragma once

#include <filesystem>

#include "easydel/infra/base_module.h"
#include "easydel/quantization/writers/hessians.h"
#include "easydel/quantization/writers/written_format.h"

namespace easydel::quantization {

// `layers` as layers_to_quantize gives them; the model is dense and on one device. `hessians` may lack layers, which
// are then rounded as they are. NotSupportedError for layers that the format has no tensors for: tables, and experts
// that files keep stacked.
void write_packed_model(const BaseModule& model, const std::vector<std::string>& layers, const WrittenFormat& format,
                        const Hessians& hessians, const std::filesystem::path& directory);

}  // namespace easydel::quantization
