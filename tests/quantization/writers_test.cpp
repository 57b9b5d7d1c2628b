// GPTQ's rounding on plain matrices; tests/quantization/written_test.py has the files.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/quantization/writers/written_format.h"

namespace easydel::quantization {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kWrittenRows = 24, kWrittenColumns = 192, kWrittenGroup = 64;

at::Tensor values_of(const RoundedColumns& rounded) {
  const at::Tensor codes = rounded.codes.to(at::kFloat).sub_(8).view({kWrittenRows, -1, kWrittenGroup});
  return codes.mul_(rounded.scales.unsqueeze(-1)).view({kWrittenRows, kWrittenColumns});
}

// The expected squared error of what a layer computes.
double error_of(const at::Tensor& off, const at::Tensor& hessian) {
  return off.mm(hessian).mul_(off).sum().item<double>();
}

TEST(RoundedColumns, MakeUpForTheErrorsOfEarlierOnes) {
  at::manual_seed(1);
  const at::Tensor matrix = at::randn({kWrittenRows, kWrittenColumns});
  // Inputs that depend on each other, some of which are never seen.
  at::Tensor x = at::randn({400, 48}).mm(at::randn({48, kWrittenColumns})) + 0.3 * at::randn({400, kWrittenColumns});
  x.narrow(1, 100, 5).zero_();
  const at::Tensor hessian = x.t().mm(x) / 400;
  const at::Tensor nearest = values_of(round_columns(matrix, {}, kWrittenGroup, float16)) - matrix;
  const at::Tensor made_up = values_of(round_columns(matrix, hessian, kWrittenGroup, float16)) - matrix;
  EXPECT_LT(error_of(made_up, hessian), 0.4 * error_of(nearest, hessian));
  // Without a text each weight becomes the nearest code, but for those beyond the last ones.
  const at::Tensor steps = round_columns(matrix, {}, kWrittenGroup, float16).scales.repeat_interleave(kWrittenGroup, 1);
  EXPECT_LT((nearest.abs() > 0.5001 * steps).to(at::kFloat).mean().item<double>(), 0.03);
}

TEST(RoundedColumns, TakeMomentsThatRoundingLeftNotPositive) {
  at::manual_seed(2);
  const at::Tensor matrix = at::randn({kWrittenRows, kWrittenColumns});
  const auto [q, r] = at::linalg_qr(at::randn({kWrittenColumns, kWrittenColumns}));
  const at::Tensor values = at::logspace(-6, 0, kWrittenColumns);
  values[0] = -0.02 * values.mean();  // beyond the first damping
  const at::Tensor hessian = q.mm(values.diag()).mm(q.t());
  const at::Tensor off = values_of(round_columns(matrix, hessian, kWrittenGroup, float16)) - matrix;
  EXPECT_LT(off.abs().max().item<double>(), 2.0);
  EXPECT_THAT([&] { round_columns(matrix, at::full({kWrittenColumns, kWrittenColumns}, NAN), kWrittenGroup, float16); },
              ThrowsMessage<ConfigError>(HasSubstr("whose second moments cannot be inverted; their mean is")));
}

}  // namespace
}  // namespace easydel::quantization
