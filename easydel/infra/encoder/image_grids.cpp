#include "easydel/infra/encoder/image_grids.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/infra/files/model_io.h"

namespace easydel {

std::vector<ImageGrid> patch_grids(const ModelInputs& inputs, int64_t patch) {
  const int64_t images = inputs.pixel_values.size(0);
  const int64_t height = inputs.pixel_values.size(2), width = inputs.pixel_values.size(3);
  if (inputs.image_sizes.defined()) {
    require<ShapeError>(
        inputs.image_sizes.dim() == 2 && inputs.image_sizes.size(0) == images && inputs.image_sizes.size(1) == 2 &&
            at::isIntegralType(inputs.image_sizes.scalar_type(), false),
        "[forward] image_sizes must be integers [", images, ", 2]; got ", inputs.image_sizes.sizes(), ".");
  }
  const at::Tensor sizes = inputs.image_sizes.defined() ? inputs.image_sizes.to(at::kCPU, at::kLong).contiguous()
                                                        : at::tensor({height, width}, at::kLong).repeat({images, 1});
  std::vector<ImageGrid> grids;
  for (int64_t i = 0; i < images; ++i) {
    const int64_t* const size = sizes.const_data_ptr<int64_t>() + 2 * i;
    require<ShapeError>(size[0] >= patch && size[1] >= patch && size[0] <= height && size[1] <= width,
                        "[forward] image_sizes must be from ", patch, " x ", patch, ", a patch, to ", height, " x ",
                        width, ", as pixel_values are; got ", size[0], " x ", size[1], ".");
    grids.push_back({size[0] / patch, size[1] / patch});
  }
  return grids;
}

}  // namespace easydel
