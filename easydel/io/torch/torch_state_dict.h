// The tensors described by the pickle of torch.save, checked against the storages in its archive.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "easydel/io/tensor_info.h"
#include "easydel/io/torch/pickle.h"
#include "easydel/io/torch/zip.h"

namespace easydel {

// A view within a storage, which several tensors may share.
struct TorchTensor {
  TensorInfo info;               // its offset is 0: finding it would need a look into each storage
  std::vector<int64_t> strides;  // in elements; 0 for an expanded dimension
  int64_t storage_offset = 0;    // in elements
  std::size_t storage = 0;       // index of the archive's entry
};

// Finds the tensors of the state dict: the dict at the root if it contains a tensor, or else the dict under
// "state_dict", "model_state_dict", "model" or "module" in it, up to three levels down. Values of that dict that are
// not tensors, such as an epoch, are ignored, and nested dicts are not flattened.
//
// The storages are the entries under data/ in `directory`, which ends with a slash. Throws what TorchArchive throws.
std::vector<TorchTensor> read_torch_state_dict(const PickleValue& root, const ZipArchive& zip,
                                               const std::string& directory, const std::string& where);

}  // namespace easydel
