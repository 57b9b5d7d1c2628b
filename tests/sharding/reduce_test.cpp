#include "easydel/sharding/collectives/reduce.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/reduce_table.h"

namespace easydel {
namespace {

constexpr int64_t kCount = 5003;

// All kinds of values: normal, tiny, huge, infinite, not a number.
std::vector<at::Tensor> inputs(int64_t count, at::ScalarType dtype) {
  std::vector<at::Tensor> tensors;
  for (int64_t r = 0; r < count; ++r) {
    at::Tensor t = at::sin(at::arange(kCount, at::kDouble) * (r + 1.7)) * at::pow(2.0, at::arange(kCount) % 50 - 25);
    if (c10::isFloatingType(dtype)) {
      t.select(0, 3 + r).fill_(std::numeric_limits<double>::quiet_NaN());
      t.select(0, 101 + r).fill_(std::numeric_limits<double>::infinity());
      t.select(0, 103 + r).fill_(-std::numeric_limits<double>::infinity());
    } else {
      t = t.remainder(20);
    }
    tensors.push_back(t.to(dtype));
  }
  return tensors;
}

at::Tensor reduce_all(const std::vector<at::Tensor>& tensors, ReduceOp op) {
  const at::Tensor out = at::full_like(tensors[0], 1);
  std::vector<const void*> ins;
  for (const at::Tensor& t : tensors) ins.push_back(t.const_data_ptr());
  void* const outs[] = {out.mutable_data_ptr()};
  reduce(out.scalar_type(), op, ins, outs, 0, 2000);
  reduce(out.scalar_type(), op, ins, outs, 2000, kCount);
  return out;
}

// In float32 for the small dtypes, in order, rounded at the end.
at::Tensor expected(const std::vector<at::Tensor>& tensors, ReduceOp op) {
  const at::ScalarType dtype = tensors[0].scalar_type();
  const bool small = c10::isFloatingType(dtype) && c10::elementSize(dtype) < 4;
  at::Tensor sum = small ? tensors[0].to(at::kFloat) : tensors[0].clone();
  for (std::size_t r = 1; r < tensors.size(); ++r) {
    const at::Tensor next = tensors[r].to(sum.scalar_type());
    sum = op == ReduceOp::Sum ? sum + next : op == ReduceOp::Max ? at::maximum(sum, next) : at::minimum(sum, next);
  }
  return sum.to(dtype);
}

class Reduce : public testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, Reduce,
                         testing::Values(at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kFloat8_e4m3fn,
                                         at::kFloat8_e5m2, at::kLong, at::kInt, at::kShort, at::kChar, at::kByte),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST_P(Reduce, RoundsOnceInTheOrderOfTheInputs) {
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min}) {
    for (const int64_t count : {1, 2, 3, 8}) {
      const auto tensors = inputs(count, GetParam());
      const at::Tensor actual = reduce_all(tensors, op), wanted = expected(tensors, op);
      EXPECT_TRUE(at::equal(actual.to(at::kDouble).nan_to_num(12345, 1e300, -1e300),
                            wanted.to(at::kDouble).nan_to_num(12345, 1e300, -1e300)))
          << count << " inputs, operation " << static_cast<int>(op);
    }
  }
}

TEST(ReduceTables, IsTheSameOnEveryInstructionSet) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c")) GTEST_SKIP() << "this machine has no AVX2";
  // Every pair of halves, among them all subnormals and ties.
  const at::Tensor all = at::arange(65536, at::kInt).to(at::kShort);
  const at::Tensor other = all.flip(0) * 7;
  for (const auto member : {&ReduceTable::bfloat16, &ReduceTable::float16}) {
    at::Tensor plain = at::empty_like(all), wide = at::empty_like(all);
    const void* const ins[] = {all.const_data_ptr(), other.const_data_ptr()};
    void* const plain_out[] = {plain.mutable_data_ptr()};
    void* const wide_out[] = {wide.mutable_data_ptr()};
    (reduce_table_baseline.*member).sum({ins, plain_out}, 0, 65536);
    (reduce_table_avx2.*member).sum({ins, wide_out}, 0, 65536);
    const at::ScalarType dtype = member == &ReduceTable::float16 ? at::kHalf : at::kBFloat16;
    plain = plain.view(dtype).to(at::kDouble);
    wide = wide.view(dtype).to(at::kDouble);
    EXPECT_TRUE(at::equal(plain.isnan(), wide.isnan()));
    EXPECT_TRUE(at::equal(plain.nan_to_num(0, 1e300, -1e300), wide.nan_to_num(0, 1e300, -1e300)));
  }
}

TEST(ReduceTables, RejectsDtypesWithoutArithmetic) {
  EXPECT_FALSE(can_reduce(at::kBool));
  EXPECT_THAT(
      [] { reduce(at::kBool, ReduceOp::Sum, {}, {}, 0, 0); },
      testing::ThrowsMessage<NotSupportedError>("[reduce] a reduction needs a dtype with arithmetic; got bool."));
}

}  // namespace
}  // namespace easydel
