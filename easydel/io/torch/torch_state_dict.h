// The tensors that the pickle of torch.save describes, checked against the storages in its archive.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "easydel/io/tensor_info.h"
#include "easydel/io/torch/pickle.h"
#include "easydel/io/torch/zip.h"

namespace easydel {

// A view of a storage, which several tensors may share. It is inside the storage.
struct TorchTensor {
  TensorInfo info;               // its offset is 0: that would mean looking into each storage
  std::vector<int64_t> strides;  // in elements; 0 for an expanded dimension
  int64_t storage_offset = 0;    // in elements
  std::size_t storage = 0;       // of the archive's entries
};

// Takes the tensors of the state dict: the dict at the root when it holds a tensor, or else the dict that stands
// under "state_dict", "model_state_dict", "model" or "module" in it, up to three levels down. Of that dict the values
// that are tensors count; others, such as an epoch, are passed over, and dicts in it are not flattened.
//
// The storages are the entries under data/ in `directory`, which ends with a slash. Throws what TorchArchive throws.
std::vector<TorchTensor> read_torch_state_dict(const PickleValue& root, const ZipArchive& zip,
                                               const std::string& directory, const std::string& where);

}  // namespace easydel
