// MXFP4 of gpt-oss: experts stacked, "…_blocks" uint8 [E, out, in / 32, 16] with two values in a byte, the first in the
// low bits, and "…_scales" uint8 [E, out, in / 32], exponents of two. The model takes the matrices the other way round.
#include <ATen/ATen.h>

#include "easydel/quantization/formats/floats.h"

namespace easydel::quantization {

void plan_mxfp4(const Json&, const Files& files, Decoding& out) {
  for (const TensorInfo& info : files->infos()) {
    if (!info.name.ends_with("_blocks")) continue;
    const std::string blocks = info.name, weight = blocks.substr(0, blocks.size() - 7), scales = weight + "_scales";
    const std::vector<int64_t> shape = info.shape;
    const TensorInfo& exponents = files->info(scales);
    files->check(shape.size() == 4 && shape[3] == 16 && info.dtype == uint8, blocks,
                 "must be bytes [experts, out, blocks, 16]; got ", at::IntArrayRef(shape), ".");
    files->check(exponents.dtype == uint8 && exponents.shape == std::vector<int64_t>(shape.begin(), shape.end() - 1),
                 scales, "must be bytes, one for each block, [", shape[0], ", ", shape[1], ", ", shape[2], "]; got ",
                 at::IntArrayRef(exponents.shape), ".");
    out.hidden.insert(scales);
    DecodedWeight made;
    made.shape = {shape[0], 32 * shape[2], shape[1]};
    made.place = blocks;
    made.dense = [files, blocks, scales, made_shape = made.shape] {
      const at::Tensor bytes = files->read(blocks).flatten(-2), powers = files->read(scales);
      const at::Tensor all = at::empty(made_shape, at::kFloat);
      for (int64_t e = 0; e < all.size(0); ++e)
        all.select(0, e).copy_(mxfp4_values(bytes.select(0, e), powers.select(0, e)).t());
      return all;
    };
    made.method = [] { return make_method({.method = "mxfp4"}); };
    made.parts = [files, blocks, scales]() -> std::vector<at::Tensor> {
      return {files->read(blocks).flatten(-2), files->read(scales)};
    };
    out.weights[weight] = std::move(made);
  }
}

}  // namespace easydel::quantization
