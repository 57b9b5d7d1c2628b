// What a checkpoint's header says about one tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "easydel/core/dtype.h"

namespace easydel {

struct TensorInfo {
  std::string name;
  DType dtype = float32;       // of the tensor that is handed out
  std::string stored_as;       // the file's own word for its elements: "BF16", "Q4_K"
  std::vector<int64_t> shape;  // empty for a scalar
  int64_t offset = 0;          // of the first byte, in its file
  int64_t nbytes = 0;          // as stored, not as handed out
  std::string tied_to;         // the tensor before it in its file that has the very same elements; mostly none

  int64_t numel() const {
    int64_t product = 1;
    for (const int64_t size : shape) product *= size;
    return product;
  }
};

}  // namespace easydel
