// HQQ as transformers saves it: W_q with the codes of rows far apart in one byte, scale and zero as floats, and the
// settings of each layer as small tensors.
#include <ATen/ATen.h>

#include "easydel/quantization/formats/format.h"

namespace easydel::quantization {
namespace {

constexpr const char* kSettings[] = {"nbits",
                                     "group_size",
                                     "shape",
                                     "scale",
                                     "zero",
                                     "axis",
                                     "packing",
                                     "unpack_view_dtype",
                                     "view_as_float",
                                     "quant_scale",
                                     "quant_zero",
                                     "compute_dtype",
                                     "offload_meta",
                                     "encoded_state_dict",
                                     "stores_quant_config",
                                     "channel_wise",
                                     "optimize",
                                     "round_zero"};

int64_t read_int(const Files& files, const std::string& name) {
  const std::vector<int64_t> values = files->ints(name);
  files->check(values.size() == 1, name, "must be one number; got ", values.size(), ".");
  return values[0];
}

// The parts of bytes or words, from the high bits down, each a block of rows.
at::Tensor unpack_rows(const at::Tensor& packed, int64_t bits) {
  if (bits == 8) return packed.to(at::kFloat);
  const int64_t per = bits == 3 ? 10 : 8 / bits;
  std::vector<at::Tensor> rows;
  for (int64_t i = per - 1; i >= 0; --i)
    rows.push_back(packed.bitwise_right_shift(i * bits).bitwise_and((1 << bits) - 1));
  return at::cat(rows).to(at::kFloat);
}

}  // namespace

void plan_hqq(const Json&, const Files& files, Decoding& out) {
  for (const TensorInfo& info : files->infos()) {
    if (!info.name.ends_with(".W_q")) continue;
    const std::string prefix = info.name.substr(0, info.name.size() - 3);
    const std::string scale = prefix + "scale", zero = prefix + "zero";
    const int64_t bits = read_int(files, prefix + "nbits"), axis = read_int(files, prefix + "axis");
    require<NotSupportedError>(bits == 8 || bits == 4 || bits == 3 || bits == 2 || bits == 1, "[", files->where(), "] ",
                               quoted(prefix + "nbits"), " must be 1, 2, 3, 4 or 8; got ", bits, ".");
    for (const char* key : {"quant_scale", "quant_zero", "view_as_float"}) {
      require<NotSupportedError>(!files->contains(prefix + key) || read_int(files, prefix + key) == 0, "[",
                                 files->where(), "] ", quoted(prefix + key), " is not supported: it must be false.");
    }
    const std::vector<int64_t> shape = files->ints(prefix + "shape");
    files->check(shape.size() == 2 && shape[0] > 0 && shape[1] > 0, prefix + "shape", "must be two sizes.");
    const int64_t group = read_int(files, prefix + "group_size"), elements = shape[0] * shape[1];
    files->check(group > 0 && elements % group == 0, prefix + "group_size", "must divide ", elements, " weights; got ",
                 group, ".");
    // Rows of groups, or columns of them.
    const std::vector<int64_t> grouped =
        axis == 1 ? std::vector<int64_t>{elements / group, group} : std::vector<int64_t>{group, elements / group};
    const int64_t per = bits == 3 ? 10 : 8 / bits, rows = (grouped[0] + per - 1) / per;
    files->check(info.shape == std::vector<int64_t>{rows, grouped[1]} && info.dtype == (bits == 3 ? int32 : uint8),
                 info.name, "must be ", bits == 3 ? "int32" : "bytes", " [", rows, ", ", grouped[1], "]; got ",
                 at::IntArrayRef(info.shape), ".");
    for (const std::string& name : {scale, zero}) {
      files->check(files->info(name).numel() == elements / group, name, "has ", files->info(name).numel(),
                   " numbers for ", elements / group, " groups.");
    }
    DecodedWeight made;
    made.shape = shape;
    made.place = info.name;
    made.dense = [files, name = info.name, scale, zero, shape, grouped, bits, axis] {
      const std::vector<int64_t> each =
          axis == 1 ? std::vector<int64_t>{grouped[0], 1} : std::vector<int64_t>{1, grouped[1]};
      return unpack_rows(files->read(name), bits)
          .narrow(0, 0, grouped[0])
          .sub(files->floats(zero).view(each))
          .mul_(files->floats(scale).view(each))
          .view(shape);
    };
    for (const char* key : kSettings) out.hidden.insert(prefix + key);
    out.weights[prefix + "weight"] = std::move(made);
  }
}

}  // namespace easydel::quantization
