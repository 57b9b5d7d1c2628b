// The tables of a file that torch.save wrote: which tensors it has and where. Does not need libtorch.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "easydel/io/torch/torch_state_dict.h"
#include "easydel/io/torch/zip.h"

namespace easydel {

// See read_torch_state_dict for which tensors count.
//
// Throws FormatError for invalid content and for a pickle that would call anything but torch's own constructors of
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
