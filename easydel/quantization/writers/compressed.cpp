// compressed-tensors: int4 in groups, rounded as GPTQ does if there is a text, int8 and FP8 in rows.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"
#include "easydel/quantization/formats/affine.h"
#include "easydel/quantization/writers/written_format.h"

namespace easydel::quantization {
namespace {

class WrittenCompressed final : public WrittenFormat {
 public:
  explicit WrittenCompressed(FormatChoice choice) : choice_(std::move(choice)) {
    const bool known = choice_.scheme == "int4" || choice_.scheme == "int8" || choice_.scheme == "fp8";
    require<ConfigError>(known, "[quantize] the scheme of compressed-tensors must be int4, int8 or fp8; got ",
                         quoted(choice_.scheme), ".");
    require<ConfigError>(choice_.scheme == "int4" || choice_.group_size == 0, "[quantize] ", choice_.scheme,
                         " has one scale for each row and no groups; got the group size ", choice_.group_size, ".");
  }

  Text text() const override { return choice_.scheme == "int4" ? Text::Optional : Text::Unused; }

  Json config(const std::vector<std::string>& dense) const override {
    const bool four = choice_.scheme == "int4", floats = choice_.scheme == "fp8";
    const std::string format = four ? "pack-quantized" : floats ? "float-quantized" : "int-quantized";
    Json weights = Json::object({{"num_bits", four ? 4 : 8},
                                 {"type", floats ? "float" : "int"},
                                 {"symmetric", true},
                                 {"strategy", four ? "group" : "channel"},
                                 {"dynamic", false}});
    weights["group_size"] = four ? Json(choice_.group_size == 0 ? int64_t{128} : choice_.group_size) : Json();
    const Json group = Json::object({{"targets", Json::array({"Linear"})},
                                     {"weights", weights},
                                     {"input_activations", Json()},
                                     {"output_activations", Json()},
                                     {"format", format}});
    return Json::object({{"quant_method", "compressed-tensors"},
                         {"format", format},
                         {"quantization_status", "compressed"},
                         {"config_groups", Json::object({{"group_0", group}})},
                         {"ignore", dense}});
  }

  std::vector<std::pair<std::string, at::Tensor>> pack(const at::Tensor& matrix, DType dtype,
                                                       const at::Tensor& hessian) const override {
    if (choice_.scheme == "fp8") {
      const at::Tensor scale = matrix.abs().amax({1}, true).clamp_min_(1e-8).div_(448.0).to(dtype);
      const at::Tensor codes = (matrix / scale.to(at::kFloat)).clamp_(-448, 448).to(at::kFloat8_e4m3fn);
      return {{"weight", codes}, {"weight_scale", scale}};
    }
    const bool four = choice_.scheme == "int4";
    const auto packed_words = [&](const at::Tensor& codes, const at::Tensor& scale) {
      return std::vector<std::pair<std::string, at::Tensor>>{
          {"weight_packed", pack_words(codes, 4)},
          {"weight_scale", scale.to(dtype)},
          {"weight_shape", at::tensor({matrix.size(0), matrix.size(1)}, at::kLong)}};
    };
    if (four && hessian.defined()) {
      const RoundedColumns rounded = round_columns(matrix, hessian, checked_group(choice_, matrix.size(1)), dtype);
      return packed_words(rounded.codes, rounded.scales);
    }
    const int64_t group = four ? checked_group(choice_, matrix.size(1)) : matrix.size(1), half = four ? 8 : 128;
    const at::Tensor scale = symmetric_scales(matrix, four ? 4 : 8, group, dtype);
    const at::Tensor codes = (matrix.view({matrix.size(0), -1, group}) / scale.unsqueeze(-1))
                                 .round_()
                                 .clamp_(-half, half - 1)
                                 .view(matrix.sizes());
    if (!four) return {{"weight", codes.to(at::kChar)}, {"weight_scale", scale.to(dtype)}};
    return packed_words(codes.add(8).to(at::kByte), scale);
  }

 private:
  FormatChoice choice_;
};

}  // namespace

std::unique_ptr<const WrittenFormat> make_written_compressed(const FormatChoice& choice) {
  return std::make_unique<WrittenCompressed>(choice);
}

}  // namespace easydel::quantization
