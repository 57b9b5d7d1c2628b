// AWQ in the layout of its gemm kernel: qweight int32 [in, out / 8] and qzeros int32 [groups, out / 8], eight codes in
// a word, interleaved; scales float16 [groups, out].
#include <ATen/ATen.h>

#include "easydel/quantization/formats/affine.h"

namespace easydel::quantization {
namespace {

// int32 [rows, words] to uint8 [rows, 8 * words]: the place of column j in its word.
at::Tensor unpack_interleaved(const at::Tensor& words) {
  const at::Tensor order = at::tensor({0, 4, 1, 5, 2, 6, 3, 7}, at::kLong);
  return unpack_words(words, 4, 8 * words.size(1)).unflatten(1, {-1, 8}).index_select(2, order).flatten(1);
}

void check_awq(const Json& config, const std::string& where) {
  const int64_t bits = int_setting(config, config.find("bits") ? "bits" : "w_bit", 4, where);
  require<NotSupportedError>(bits == 4, "[", where, "] quantization_config.bits of awq must be 4; got ", bits, ".");
  std::string version = text_setting(config, "version", "gemm");
  for (char& c : version) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  require<NotSupportedError>(version == "gemm", "[", where, "] quantization_config.version of awq must be gemm; got ",
                             quoted(version), ".");
  const Json* zero_point = config.find("zero_point");
  require<NotSupportedError>(!zero_point || *zero_point == Json(true), "[", where,
                             "] quantization_config.zero_point of awq must be true; got ",
                             zero_point ? zero_point->dump() : "", ".");
}

}  // namespace

void plan_awq(const Json& config, const Files& files, Decoding& out) {
  check_awq(config, files->where());
  const int64_t asked =
      int_setting(config, config.find("group_size") ? "group_size" : "q_group_size", 128, files->where());
  for (const TensorInfo& info : files->infos()) {
    if (!info.name.ends_with(".qweight")) continue;
    const std::string prefix = info.name.substr(0, info.name.size() - 7);
    const std::string zeros = prefix + "qzeros", scales = prefix + "scales";
    files->check(info.dtype == int32 && info.shape.size() == 2, info.name, "must be a matrix of int32.");
    const int64_t columns = info.shape[0], rows = info.shape[1] * 8, group = asked == -1 ? columns : asked;
    const std::vector<int64_t>&scale_shape = files->info(scales).shape, &zero_shape = files->info(zeros).shape;
    files->check(group > 0 && columns % group == 0 && scale_shape == std::vector<int64_t>{columns / group, rows},
                 scales, "must be [", group > 0 ? columns / group : 0, ", ", rows, "] for groups of ", group, "; got ",
                 at::IntArrayRef(scale_shape), ".");
    files->check(
        files->info(zeros).dtype == int32 && zero_shape == std::vector<int64_t>{columns / group, info.shape[1]}, zeros,
        "must be int32 [", columns / group, ", ", info.shape[1], "]; got ", at::IntArrayRef(zero_shape), ".");
    AffineMatrix matrix{.out = rows, .in = columns, .bits = 4, .group = group};
    matrix.scale_dtype = files->info(scales).dtype;
    matrix.codes = [files, name = info.name] { return unpack_interleaved(files->read(name)).t().contiguous(); };
    matrix.scales = [files, scales] { return files->read(scales).t(); };
    matrix.zeros = [files, zeros] { return unpack_interleaved(files->read(zeros)).t().to(at::kFloat); };
    for (const std::string& name : {zeros, scales}) out.hidden.insert(name);
    out.weights[prefix + "weight"] = affine_weight(std::move(matrix), info.name);
  }
}

}  // namespace easydel::quantization
