// Writes a safetensors file, one tensor in memory at a time: byte for byte what the reference implementation writes.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "easydel/io/safetensors/safetensors_header.h"

namespace easydel {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Returns the tensor that an info describes, on any device and with any strides.
using TensorProducer = std::function<at::Tensor(const TensorInfo& info)>;

inline const SafetensorsMetadata kTorchMetadata = {{"format", "pt"}};

// Writes tensors of these names, dtypes and shapes (the rest of an info is ignored) to `path`, where the old file stays
// until the new one is complete and on disk. `produce` is called once for each tensor in the order of the file, which
// is by dtype, then name, and may return a temporary: it is released before the next call.
//
// Throws ConfigError on a name that is not UTF-8, repeats or is "__metadata__", NotSupportedError on a dtype or layout
// that the format lacks, ShapeError on a tensor that does not match its info, and IoError.
void save_safetensors(const std::filesystem::path& path, std::vector<TensorInfo> tensors, const TensorProducer& produce,
                      const SafetensorsMetadata& metadata = kTorchMetadata);

// Tensors that share memory are each written in full; save_checkpoint writes them once.
void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const SafetensorsMetadata& metadata = kTorchMetadata);

// The info of a tensor to be written: name, dtype, shape and nbytes.
TensorInfo describe(const std::string& name, const at::Tensor& tensor);

}  // namespace easydel
