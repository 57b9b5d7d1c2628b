#include "easydel/operations/kernels/cpu/dispatch.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/tensors.h"

namespace easydel::operations::kernels {
namespace {

using at::Tensor;

std::vector<const Kernels*> tables() {
  const KernelList list = available();
  return {list.tables, list.tables + list.count};
}

TEST(Kernels, TheWidestInstructionSetIsActive) { EXPECT_EQ(&active(), tables().back()); }

// Multiplying by one in the gated kernel shows the conversion of an element and the exponential behind it.
Tensor silu_of(const Kernels& table, const Tensor& gate) {
  const Tensor up = at::ones_like(gate), y = at::empty_like(gate);
  const GatedArgs args{gate.const_data_ptr(), up.const_data_ptr(), gate.numel(), gate.numel(), gate.numel()};
  const ElementKernels& k = gate.scalar_type() == at::kFloat      ? table.float32
                            : gate.scalar_type() == at::kBFloat16 ? table.bfloat16
                                                                  : table.float16;
  k.silu_gate_forward(args, y.mutable_data_ptr(), 0, 1);
  return y;
}

TEST(Kernels, ExponentialsAreExactToTheLastBits) {
  for (const Kernels* table : tables()) {
    SCOPED_TRACE(table->instruction_set);
    const Tensor x = at::linspace(-60, 80, 100001);
    EXPECT_TRUE(is_close(silu_of(*table, x), at::silu(x.to(at::kDouble)), {4e-7, 1e-30}));
  }
}

TEST(Kernels, EveryHalfPrecisionNumberConvertsThereAndBack) {
  // A rotation by zero passes every number through both conversions.
  std::vector<int16_t> bits(65536);
  for (int i = 0; i < 65536; ++i) bits[i] = static_cast<int16_t>(i);
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const Tensor x = at::empty({1, 512, 1, 128}, type);
    std::memcpy(x.mutable_data_ptr(), bits.data(), 131072);
    const Tensor cos = at::ones({1, 512, 64}), sin = at::zeros({1, 512, 64});
    for (const Kernels* table : tables()) {
      SCOPED_TRACE(table->instruction_set);
      const Tensor y = at::empty_like(x);
      const RotaryArgs args{x.const_data_ptr(),
                            65536,
                            128,
                            128,
                            y.mutable_data_ptr(),
                            512,
                            1,
                            128,
                            cos.const_data_ptr(),
                            sin.const_data_ptr(),
                            0,
                            64,
                            64,
                            false,
                            false};
      (type == at::kHalf ? table->float16 : table->bfloat16).rotary(args, 0, 512);
      // Partners of NaN and infinity become NaN, as 0 * infinity is one.
      const Tensor want = x.to(at::kFloat), got = y.to(at::kFloat);
      const Tensor halves = want.view({512, 2, 64});
      const Tensor finite = at::isfinite(halves).all(1, true).expand({512, 2, 64}).reshape(x.sizes());
      EXPECT_TRUE(at::equal(got.masked_select(finite), want.masked_select(finite)));
    }
  }
}

TEST(Kernels, RoundingToHalfPrecisionIsTorchs) {
  at::manual_seed(0);
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    // Values over the whole range, among them subnormals, ties and overflows.
    const Tensor wide =
        at::cat({at::randn({40000}) * at::pow(2.0, at::randint(-30, 20, {40000}).to(at::kFloat)),
                 at::tensor({65504.f, 65519.f, 65520.f, 1e30f, 5.9e-8f, 2.9e-8f, 0.f, 1.00048828125f,
                             std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()})});
    const int64_t n = wide.numel();
    // RMSNorm with eps so large that the scale is exactly a power of two rounds x * 2^-k.
    const Tensor x = at::ones({n}, type), factor = wide, rstd = at::empty({1}), y = at::empty({n}, type);
    for (const Kernels* table : tables()) {
      SCOPED_TRACE(table->instruction_set);
      const RmsNormArgs args{x.const_data_ptr(), factor.const_data_ptr(), n, 3.0, false};  // 1 / sqrt(1 + 3) = 1/2
      (type == at::kHalf ? table->float16 : table->bfloat16)
          .rms_norm_forward(args, y.mutable_data_ptr(), rstd.mutable_data_ptr(), 0, 1);
      EXPECT_TRUE(at::equal(y, (wide * 0.5f).to(type)));
    }
  }
}

TEST(Kernels, InstructionSetsAgree) {
  at::manual_seed(0);
  const Tensor logits = at::randn({5, 777}) * 5, labels = at::tensor({0, 776, 3, -100, 50}, at::kLong);
  const Tensor scale = at::tensor({0.5f, 1.f, 2.f, 1.f, 0.f});
  const CrossEntropyArgs args{777, -100, 0.1, 0.01, 0.7, 9.0};
  std::vector<std::vector<Tensor>> results;
  for (const Kernels* table : tables()) {
    const Tensor work = logits.clone(), nll = at::empty({5}), lse = at::empty({5}), correct = at::empty({5}, at::kByte);
    table->acc32.cross_entropy(args, work.mutable_data_ptr(), labels.const_data_ptr<int64_t>(), scale.const_data_ptr(),
                               nll.mutable_data_ptr(), lse.mutable_data_ptr(), correct.mutable_data_ptr<uint8_t>(), 0,
                               5);
    results.push_back({work, nll, lse, correct});
  }
  for (const auto& result : results) {
    for (std::size_t i = 0; i < result.size(); ++i) EXPECT_TRUE(is_close(result[i], results[0][i], {2e-5, 1e-6}));
  }
}

}  // namespace
}  // namespace easydel::operations::kernels
