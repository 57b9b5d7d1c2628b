// The names that a file written by torch.save may call, and what each means to a reader that calls nothing.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "easydel/core/dtype.h"

namespace easydel {

struct TorchGlobal {
  enum class Kind {
    Plain,           // a non-tensor value: torch.Size, torch.device
    Tensor,          // builds a tensor from a storage
    Parameter,       // passes a tensor on
    Storage,         // a storage of `dtype`
    UntypedStorage,  // a storage of bytes
    DType,
    Unsupported,  // builds a tensor that this reader does not support
  };
  Kind kind = Kind::Plain;
  DType dtype = float32;
  std::string_view dtype_name;  // torch's
  int version = 0;              // of the function that builds a tensor
  std::string_view trouble;     // "a quantized tensor. …"
};

std::span<const std::string_view> torch_global_names();
std::optional<TorchGlobal> find_torch_global(std::string_view name);

}  // namespace easydel
