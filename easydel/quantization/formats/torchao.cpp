// torchao's plain safetensors: "<layer>._weight_qdata" with "_scale" and, for integers, "_zero_point". int8 in groups
// or rows, and FP8 in rows, in blocks or as a whole. Codes in the order of a kernel (tile-packed int4) are not plain.
#include <ATen/ATen.h>

#include "easydel/quantization/formats/affine.h"
#include "easydel/quantization/formats/floats.h"

namespace easydel::quantization {

void plan_torchao(const Json&, const Files& files, Decoding& out) {
  for (const TensorInfo& info : files->infos()) {
    if (!info.name.ends_with("._weight_qdata")) continue;
    const std::string prefix = info.name.substr(0, info.name.size() - 13);
    const std::string scale = prefix + "_weight_scale", zero = prefix + "_weight_zero_point";
    require<NotSupportedError>((info.dtype == int8 || info.dtype == DType::Float8_e4m3fn) && info.shape.size() == 2,
                               "[", files->where(), "] ", quoted(info.name), " is ", dtype_name(info.dtype), " ",
                               at::IntArrayRef(info.shape),
                               "; of torchao's layouts int8 and float8_e4m3fn matrices are supported.");
    out.hidden.insert(scale);
    const std::vector<int64_t>& given = files->info(scale).shape;
    const int64_t rows = info.shape[0], columns = info.shape[1];
    if (info.dtype == DType::Float8_e4m3fn) {
      // Blocks of one size: as many as there are scales in each direction.
      const auto block = [](int64_t size, int64_t count) {
        return count > 0 && size % count == 0 ? size / count : size;
      };
      const std::vector<int64_t> counts = given.size() == 2 ? given : std::vector<int64_t>{1, 1};
      out.weights[prefix + "weight"] =
          fp8_weight(files, info.name, scale, {block(rows, counts[0]), block(columns, counts[1])});
      continue;
    }
    const int64_t count = files->info(scale).numel(), groups = rows > 0 ? count / rows : 0;
    files->check(groups > 0 && groups * rows == count && columns % groups == 0, scale, "has ", count, " scales for ",
                 rows, " rows of ", columns, ".");
    AffineMatrix matrix{.out = rows, .in = columns, .bits = 8, .group = columns / groups};
    matrix.scale_dtype = files->info(scale).dtype;
    matrix.codes = [files, name = info.name] { return files->read(name).to(at::kShort).add_(128).to(at::kByte); };
    matrix.scales = [files, scale, rows, groups] { return files->read(scale).view({rows, groups}); };
    if (files->contains(zero)) {
      files->check(files->info(zero).numel() == count, zero, "has ", files->info(zero).numel(), " zero points for ",
                   count, " scales.");
      out.hidden.insert(zero);
      matrix.zeros = [files, zero, rows, groups] { return files->floats(zero).add_(128).view({rows, groups}); };
    }
    for (const char* more : {"_weight_act_pre_scale", "_weight_act_quant_scale"}) {
      require<NotSupportedError>(!files->contains(prefix + more), "[", files->where(), "] ", quoted(prefix + more),
                                 " changes a layer's inputs, which is not supported.");
    }
    out.weights[prefix + "weight"] = affine_weight(std::move(matrix), info.name);
  }
}

}  // namespace easydel::quantization
