// What a checkpoint's header says about one tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "easydel/core/dtype.h"

namespace easydel {

struct TensorInfo {
  std::string name;
  DType dtype = float32;       // of the tensor returned
  std::string stored_as;       // the file's name of the element type: "BF16", "Q4_K"
  std::vector<int64_t> shape;  // empty for a scalar
  int64_t offset = 0;          // of the first byte, in its file
  int64_t nbytes = 0;          // as stored, not as returned
  std::string tied_to;         // an earlier tensor of the file with the same elements; usually none

  int64_t numel() const {
    int64_t product = 1;
    for (const int64_t size : shape) product *= size;
    return product;
  }
};

}  // namespace easydel
