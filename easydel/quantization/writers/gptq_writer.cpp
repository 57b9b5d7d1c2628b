// GPTQ: columns are rounded one after the other, and the columns that follow make up for each one's error as far as the
// inputs of a text allow.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/quantization/formats/affine.h"
#include "easydel/quantization/writers/written_format.h"

namespace easydel::quantization {
namespace {

constexpr int64_t kColumnsAtOnce = 128;
// Parts of the mean diagonal that are added to it: more, where sums of large and small inputs left no positive matrix.
constexpr double kDampings[] = {0.01, 0.1, 1.0};

// The upper Cholesky factor of the inverse, in float64.
at::Tensor inverse_factor(const at::Tensor& hessian) {
  const at::Tensor given = hessian.to(at::kDouble).clone();
  given.diagonal().masked_fill_(given.diagonal().eq(0), 1.0);  // of inputs that were never seen
  const double mean = given.diagonal().mean().item<double>();
  for (const double damping : kDampings) {
    const at::Tensor damped = given.clone();
    damped.diagonal().add_(damping * mean);
    const auto [lower, failed] = at::linalg_cholesky_ex(damped);
    if (failed.item<int>() != 0) continue;
    const auto [upper, failed_too] = at::linalg_cholesky_ex(at::cholesky_inverse(lower), /*upper=*/true);
    if (failed_too.item<int>() == 0) return upper;
  }
  fail<ConfigError>("[quantize] the calibration text gives a layer inputs whose second moments cannot be inverted; ",
                    "their mean is ", mean, ". Use another text, or a format without calibration.");
}

}  // namespace

RoundedColumns round_columns(const at::Tensor& matrix, const at::Tensor& hessian, int64_t group, DType dtype) {
  const int64_t rows = matrix.size(0), columns = matrix.size(1);
  const at::Tensor weights = matrix.to(at::kDouble).clone(),
                   factor = inverse_factor(hessian.defined() ? hessian : at::eye(columns));
  const at::Tensor codes = at::empty({rows, columns}, at::kByte),
                   scales = at::empty({rows, columns / group}, at::kFloat);
  for (int64_t begin = 0; begin < columns; begin += kColumnsAtOnce) {
    const int64_t count = std::min(kColumnsAtOnce, columns - begin);
    const at::Tensor block = weights.narrow(1, begin, count);  // of the same memory
    const at::Tensor errors = at::zeros({rows, count}, at::kDouble);
    const at::Tensor own = factor.narrow(0, begin, count).narrow(1, begin, count);
    for (int64_t c = 0; c < count; ++c) {
      const int64_t column = begin + c;
      if (column % group == 0) {
        // A group may reach past this block: what errors so far did to it is not in its columns yet.
        at::Tensor ahead = weights.narrow(1, column, group).clone();
        const int64_t inside = std::min(group, begin + count - column);
        if (inside < group && c > 0)
          ahead.narrow(1, inside, group - inside)
              .sub_(errors.narrow(1, 0, c).mm(factor.narrow(0, begin, c).narrow(1, begin + count, group - inside)));
        scales.select(1, column / group).copy_(symmetric_scales(ahead.to(at::kFloat), 4, group, dtype).view({rows}));
      }
      const at::Tensor scale = scales.select(1, column / group).to(at::kDouble);
      const at::Tensor value = block.select(1, c), code = (value / scale).round_().clamp_(-8, 7);
      codes.select(1, column).copy_(code.add(8).to(at::kByte));
      const at::Tensor error = (value - code * scale) / own[c][c];
      errors.select(1, c).copy_(error);
      if (c + 1 < count)
        block.narrow(1, c + 1, count - c - 1).sub_(error.unsqueeze(1) * own[c].narrow(0, c + 1, count - c - 1));
    }
    const int64_t next = begin + count;
    if (next < columns)
      weights.narrow(1, next, columns - next)
          .sub_(errors.mm(factor.narrow(0, begin, count).narrow(1, next, columns - next)));
  }
  return {codes, scales};
}

namespace {

class WrittenGptq final : public WrittenFormat {
 public:
  explicit WrittenGptq(FormatChoice choice) : choice_(std::move(choice)) {}

  Text text() const override { return Text::Needed; }

  Json config(const std::vector<std::string>& dense) const override {
    Json json = Json::object({{"quant_method", "gptq"},
                              {"bits", 4},
                              {"group_size", choice_.group_size == 0 ? int64_t{128} : choice_.group_size},
                              {"sym", true},
                              {"desc_act", false},
                              {"checkpoint_format", "gptq"}});
    json["modules_to_not_convert"] = dense;
    return json;
  }

  std::vector<std::pair<std::string, at::Tensor>> pack(const at::Tensor& matrix, DType,
                                                       const at::Tensor& hessian) const override {
    const int64_t rows = matrix.size(0), columns = matrix.size(1), group = checked_group(choice_, columns);
    require<ConfigError>(rows % 8 == 0, "[quantize] gptq packs eight zero points in a word; a matrix has ", rows,
                         " rows.");
    const RoundedColumns rounded = round_columns(matrix, hessian, group, float16);
    return {{"qweight", pack_words(rounded.codes, 4).t().contiguous()},
            {"qzeros", pack_words(at::full({columns / group, rows}, 7, at::kByte), 4)},
            {"scales", rounded.scales.t().to(at::kHalf).contiguous()},
            {"g_idx", at::arange(columns, at::kInt).floor_divide_(group)}};
  }

 private:
  FormatChoice choice_;
};

}  // namespace

std::unique_ptr<const WrittenFormat> make_written_gptq(const FormatChoice& choice) {
  return std::make_unique<WrittenGptq>(choice);
}

}  // namespace easydel::quantization
