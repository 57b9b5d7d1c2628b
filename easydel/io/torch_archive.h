// The tables of a file that torch.save wrote: which tensors it holds and where they lie. Needs no libtorch.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "easydel/io/tensor_info.h"
#include "easydel/io/zip.h"

namespace easydel {

// A view of a storage, which several tensors may share. It is inside the storage.
struct TorchTensor {
  TensorInfo info;               // its offset is 0: that would mean looking into each storage
  std::vector<int64_t> strides;  // in elements; 0 for an expanded dimension
  int64_t storage_offset = 0;    // in elements
  std::size_t storage = 0;       // of zip().entries()
};

// Takes the tensors of the state dict: the dict at the root when it holds a tensor, or else the dict that stands
// under "state_dict", "model_state_dict", "model" or "module" in it, up to three levels down. Of that dict the values
// that are tensors count; others, such as an epoch, are passed over, and dicts in it are not flattened.
//
// Throws FormatError for what is broken and for a pickle that would call anything but torch's own constructors of
// dense tensors; NotSupportedError for what torch can read and this cannot: the format before torch 1.6, TorchScript,
// big-endian files, quantized, sparse, nested, meta and lazily conjugated tensors.
class TorchArchive {
 public:
  // The bytes must outlive the archive. `where` is named in errors.
  TorchArchive(std::span<const std::byte> bytes, const std::string& where);

  const std::vector<TorchTensor>& tensors() const { return tensors_; }  // in the order of the state dict
  const ZipArchive& zip() const { return zip_; }

 private:
  ZipArchive zip_;
  std::vector<TorchTensor> tensors_;
};

}  // namespace easydel
