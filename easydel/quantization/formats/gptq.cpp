// GPTQ: qweight int32 [in * bits / 32, out], the codes of a column of inputs in the lowest bits first; qzeros int32
// [groups, out * bits / 32] one below the zero points (version 2: the zero points themselves); scales float16 [groups,
// out]; g_idx int32 [in], the group of each input.
#include <ATen/ATen.h>

#include "easydel/quantization/formats/affine.h"

namespace easydel::quantization {
namespace {

void check_gptq(const Json& config, const std::string& where) {
  const int64_t bits = int_setting(config, "bits", 4, where);
  require<NotSupportedError>(bits == 2 || bits == 3 || bits == 4 || bits == 8, "[", where,
                             "] quantization_config.bits of gptq must be 2, 3, 4 or 8; got ", bits, ".");
  const int64_t group = int_setting(config, "group_size", 128, where);
  require<NotSupportedError>(group > 0 || group == -1, "[", where,
                             "] quantization_config.group_size must be positive, or -1 for whole rows; got ", group,
                             ".");
  const std::string layout = text_setting(config, "checkpoint_format", "gptq");
  require<NotSupportedError>(layout == "gptq" || layout == "gptq_v2", "[", where,
                             "] quantization_config.checkpoint_format must be gptq or gptq_v2; got ", quoted(layout),
                             ".");
  require<NotSupportedError>(!is_set(config, "is_marlin_format"), "[", where,
                             "] quantization_config.is_marlin_format must be false: weights in the order of Marlin's "
                             "kernels are not supported; gptq and gptq_v2 are.");
}

}  // namespace

void plan_gptq(const Json& config, const Files& files, Decoding& out) {
  check_gptq(config, files->where());
  const bool second = text_setting(config, "checkpoint_format", "gptq") == "gptq_v2";
  const bool dynamic = config.find("dynamic") && config.at("dynamic").size() > 0;
  const int64_t asked = int_setting(config, "group_size", 128, files->where());
  for (const TensorInfo& info : files->infos()) {
    if (!info.name.ends_with(".qweight")) continue;
    const std::string prefix = info.name.substr(0, info.name.size() - 7);
    const std::string zeros = prefix + "qzeros", scales = prefix + "scales", order = prefix + "g_idx";
    const std::vector<int64_t>&scale_shape = files->info(scales).shape, &zero_shape = files->info(zeros).shape;
    files->check(info.dtype == int32 && info.shape.size() == 2, info.name, "must be a matrix of int32.");
    files->check(scale_shape.size() == 2 && scale_shape[1] == info.shape[1], scales, "must have a column for each of ",
                 info.shape[1], " outputs; got ", at::IntArrayRef(scale_shape), ".");
    const bool ordered = !files->contains(order);
    int64_t bits = int_setting(config, "bits", 4, files->where());
    if (dynamic && !ordered && files->info(order).numel() > 0) bits = 32 * info.shape[0] / files->info(order).numel();
    const int64_t columns = ordered ? info.shape[0] * 32 / bits : files->info(order).numel();
    files->check(
        columns > 0 && columns * bits == info.shape[0] * 32 && (bits == 2 || bits == 3 || bits == 4 || bits == 8),
        info.name, "has ", info.shape[0], " rows of words for ", columns, " inputs of ", bits, " bits.");
    int64_t group = asked == -1 ? columns : asked;
    if (dynamic && scale_shape[0] > 0) group = (columns + scale_shape[0] - 1) / scale_shape[0];
    files->check(scale_shape[0] == (columns + group - 1) / group, scales, "has ", scale_shape[0], " groups for ",
                 columns, " inputs in groups of ", group, ".");
    files->check(files->info(zeros).dtype == int32 && zero_shape.size() == 2 && zero_shape[0] == scale_shape[0] &&
                     zero_shape[1] * 32 == info.shape[1] * bits,
                 zeros, "must be int32 of ", scale_shape[0], " groups of ", info.shape[1], " zero points; got ",
                 at::IntArrayRef(zero_shape), ".");
    AffineMatrix matrix{.out = info.shape[1], .in = columns, .bits = bits, .group = group};
    matrix.scale_dtype = files->info(scales).dtype;
    matrix.codes = [files, name = info.name, bits, columns] {
      return unpack_words(files->read(name).t(), bits, columns);
    };
    matrix.scales = [files, scales] { return files->read(scales).t(); };
    matrix.zeros = [files, zeros, bits, second, rows = info.shape[1]] {
      at::Tensor points = unpack_words(files->read(zeros), bits, rows).t();
      if (!second) points = (points.to(at::kInt) + 1).bitwise_and((1 << bits) - 1);
      return points.to(at::kFloat);
    };
    if (!ordered) {
      matrix.group_of = [files, order, groups = scale_shape[0]] {
        const at::Tensor of = files->read(order).to(at::kLong).flatten();
        files->check(of.numel() == 0 || (of.min().item<int64_t>() >= 0 && of.max().item<int64_t>() < groups), order,
                     "has groups outside of the ", groups, " that have scales.");
        return of;
      };
    }
    // Symmetric codes have the middle for every zero point, which a faster kernel takes for granted.
    if (is_set(config, "sym") && bits == 4 && !dynamic) {
      const auto points = matrix.zeros;
      matrix.zeros = {};
      matrix.codes = [files, name = info.name, zeros, points, bits, columns] {
        files->check(points().eq(8).all().item<bool>(), zeros,
                     "has zero points other than 8, but quantization_config.sym is true.");
        return unpack_words(files->read(name).t(), bits, columns);
      };
    }
    for (const std::string& name : {zeros, scales, order}) out.hidden.insert(name);
    out.weights[prefix + "weight"] = affine_weight(std::move(matrix), info.name);
  }
}

}  // namespace easydel::quantization
