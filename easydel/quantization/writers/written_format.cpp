#include "easydel/quantization/writers/written_format.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"

namespace easydel::quantization {
namespace {

constexpr int64_t kWrittenBlock = 128;
constexpr double kMaxFp8 = 448.0;

// DeepSeek's layout: blocks of 128 by 128 with a scale each.
class WrittenFp8 final : public WrittenFormat {
 public:
  Json config(const std::vector<std::string>& dense) const override {
    return Json::object({{"quant_method", "fp8"},
                         {"fmt", "e4m3"},
                         {"activation_scheme", "dynamic"},
                         {"weight_block_size", std::vector<int64_t>{kWrittenBlock, kWrittenBlock}},
                         {"modules_to_not_convert", dense}});
  }
  std::vector<std::pair<std::string, at::Tensor>> pack(const at::Tensor& matrix, DType,
                                                       const at::Tensor&) const override {
    const int64_t rows = matrix.size(0), columns = matrix.size(1);
    const auto blocks = [](int64_t size) { return (size + kWrittenBlock - 1) / kWrittenBlock; };
    const at::Tensor scales = at::empty({blocks(rows), blocks(columns)}, at::kFloat);
    const at::Tensor codes = at::empty({rows, columns}, at::kFloat8_e4m3fn);
    for (int64_t i = 0; i < scales.size(0); ++i) {
      for (int64_t j = 0; j < scales.size(1); ++j) {
        const auto box = [&](const at::Tensor& t) {
          return t.slice(0, i * kWrittenBlock, (i + 1) * kWrittenBlock)
              .slice(1, j * kWrittenBlock, (j + 1) * kWrittenBlock);
        };
        const at::Tensor values = box(matrix);
        const double largest = values.abs().max().item<double>(), scale = largest > 0 ? largest / kMaxFp8 : 1.0;
        scales[i][j] = scale;
        box(codes).copy_((values / static_cast<float>(scale)).clamp_(-kMaxFp8, kMaxFp8).to(at::kFloat8_e4m3fn));
      }
    }
    return {{"weight", codes}, {"weight_scale_inv", scales}};
  }
};

}  // namespace

int64_t checked_group(const FormatChoice& choice, int64_t columns) {
  const int64_t group = choice.group_size == 0 ? kWrittenBlock : choice.group_size;
  require<ConfigError>(group > 0 && group % 32 == 0 && columns % group == 0, "[quantize] the group size of ",
                       choice.format, " must be a multiple of 32 that divides the ", columns,
                       " columns of every matrix; got ", group, ". Give another with --group-size.");
  return group;
}

at::Tensor symmetric_scales(const at::Tensor& matrix, int64_t bits, int64_t group, DType dtype) {
  const double half = static_cast<double>(int64_t{1} << (bits - 1));
  const at::Tensor groups = matrix.view({matrix.size(0), -1, group});
  const at::Tensor largest = groups.abs().amax({-1}).clamp_min_(1e-8);
  at::Tensor best, least;
  for (int step = 0; step <= 12; ++step) {
    const at::Tensor scale = (largest * ((1.0 - 0.025 * step) / (half - 0.5))).to(dtype).to(at::kFloat);
    const at::Tensor each = scale.unsqueeze(-1);
    const at::Tensor error =
        (groups / each).round_().clamp_(-half, half - 1).mul_(each).sub_(groups).square_().sum({-1});
    if (!best.defined()) {
      best = scale, least = error;
      continue;
    }
    const at::Tensor better = error < least;
    best = at::where(better, scale, best);
    least = at::where(better, error, least);
  }
  return best;
}

std::unique_ptr<const WrittenFormat> make_written_format(const FormatChoice& choice) {
  require<ConfigError>(choice.scheme.empty() || choice.format == "compressed-tensors", "[quantize] ", choice.format,
                       " has no schemes; got ", quoted(choice.scheme), ".");
  if (choice.format == "compressed-tensors") return make_written_compressed(choice);
  if (choice.format == "gptq") return make_written_gptq(choice);
  if (choice.format == "awq") return make_written_awq(choice);
  require<ConfigError>(choice.format == "fp8", "[quantize] unknown format ", quoted(choice.format),
                       "; known: awq, bitsandbytes, compressed-tensors, easydel, fp8, gguf, gptq.");
  require<ConfigError>(choice.group_size == 0, "[quantize] fp8 has blocks of 128 by 128 and no groups; got ",
                       choice.group_size, ".");
  return std::make_unique<WrittenFp8>();
}

}  // namespace easydel::quantization
