// Products with packed weights on a GPU against their dequantized matrix in float64 on the CPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/operations/kernels/cuda/packed_weights.h"
#include "easydel/operations/quantized/packed_product.h"
#include "tests/operations/relative_error.h"

namespace easydel::operations {
namespace {

using at::Tensor;

struct DrawnCodes {
  PackedFormat format;
  int64_t out, in, group;
  at::ScalarType scales = at::kFloat;
};

PackedCodes draw(const DrawnCodes& d) {
  PackedCodes packed;
  packed.format = d.format;
  if (d.format == PackedFormat::kInt8) {
    packed.codes = at::randint(-128, 128, {d.out, d.in}, at::kChar);
    packed.scales = at::rand({d.out}) + 0.1;
    return packed;
  }
  packed.codes = at::randint(0, 256, {d.out, d.in / 2}, at::kByte);
  if (d.scales == at::kByte) {
    packed.scales = at::randint(0, 256, {d.out, d.in / d.group}, at::kByte);
    packed.scale_map = at::rand({256}) - 0.3;
    packed.outer_block = 16;
    packed.outer_scales = at::rand({(packed.scales.numel() + 15) / 16}) + 0.1;
    packed.scale_offset = at::full({1}, 0.25F);
  } else {
    packed.scales = (at::rand({d.out, d.in / d.group}) + 0.1).to(d.scales);
  }
  return packed;
}

PackedCodes codes_on_gpu(const PackedCodes& here) {
  PackedCodes there = here;
  for (Tensor* t : {&there.codes, &there.scales, &there.scale_map, &there.outer_scales, &there.scale_offset})
    if (t->defined()) *t = t->to(at::kCUDA);
  return there;
}

class PackedOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    at::manual_seed(0);
  }
};

std::vector<DrawnCodes> all_drawn() {
  using enum PackedFormat;
  return {
      {kInt8, 64, 256, 0},
      {kInt8, 33, 48, 0},      // odd rows, less than a span
      {kInt8, 2048, 2048, 0},  // as a model has them
      {kInt8, 7, 20, 0},       // not in sixteen bytes
      {kNf4, 64, 256, 64},
      {kNf4, 33, 576, 64},
      {kNf4, 512, 2048, 32},
      {kNf4, 100, 1056, 32, at::kHalf},
      {kNf4, 48, 384, 384},
      {kNf4, 40, 512, 64, at::kByte},
      {kInt4, 64, 256, 32, at::kHalf},
      {kInt4, 33, 32, 32, at::kHalf},
      {kInt4, 17, 416, 32, at::kHalf},
      {kInt4, 2048, 2048, 128, at::kHalf},
      {kInt4, 130, 8192, 64, at::kFloat},
  };
}

TEST_F(PackedOnCuda, UnpackingGivesTheCpusValues) {
  for (const DrawnCodes& d : all_drawn()) {
    const PackedCodes here = draw(d), there = codes_on_gpu(here);
    if (!cuda_packed::applies(there)) continue;
    SCOPED_TRACE(testing::Message() << static_cast<int>(d.format) << " " << d.out << " x " << d.in);
    for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
      const Tensor want = unpack(here).to(type);
      const Tensor got = unpack(there, type);
      EXPECT_EQ(got.scalar_type(), type);
      EXPECT_LT(error_of(got, want.to(at::kDouble)), type == at::kFloat ? 1e-6 : 1e-3);
      EXPECT_TRUE(at::equal(unpack_rows(there, 3, 7, type), got.narrow(0, 3, 4)));
    }
  }
}

TEST_F(PackedOnCuda, ProductsOfEveryFormatTypeAndNumberOfVectors) {
  for (const DrawnCodes& d : all_drawn()) {
    const PackedCodes here = draw(d), there = codes_on_gpu(here);
    const Tensor matrix = unpack(here).to(at::kDouble);
    for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
      if (!can_multiply_packed(at::empty({1, d.in}, at::TensorOptions(type).device(at::kCUDA)), there)) continue;
      for (const int64_t vectors : {1, 2, 3, 5, 8, 9, 16, 17, 31, 32, 40, 64, 65, 200}) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(d.format) << " " << d.out << " x " << d.in << ", "
                                        << c10::toString(type) << ", " << vectors << " vectors");
        const Tensor x = at::randn({vectors, d.in}).to(type), bias = at::randn({d.out}).to(type);
        const Tensor want = at::linear(x.to(at::kDouble), matrix, bias.to(at::kDouble));
        EXPECT_LT(error_of(packed_product(x.to(at::kCUDA), there, bias.to(at::kCUDA)), want), tolerance_of(type));
      }
    }
  }
}

TEST_F(PackedOnCuda, SeveralMatricesAtOnceAndStridedVectors) {
  using enum PackedFormat;
  std::vector<PackedCodes> here, there;
  for (const DrawnCodes& d :
       {DrawnCodes{kInt4, 96, 256, 32, at::kHalf}, DrawnCodes{kInt4, 33, 256, 32, at::kHalf},
        DrawnCodes{kInt4, 16, 256, 32, at::kHalf}, DrawnCodes{kInt4, 5, 256, 32, at::kHalf},
        DrawnCodes{kInt4, 64, 256, 32, at::kHalf}, DrawnCodes{kNf4, 40, 256, 64}, DrawnCodes{kInt8, 48, 256, 0}})
    here.push_back(draw(d)), there.push_back(codes_on_gpu(here.back()));
  if (!cuda_packed::applies(there[0])) GTEST_SKIP() << "this build has no GPU kernels";
  const Tensor x = at::randn({2, 3, 512}).slice(2, 1, 512, 2);
  std::vector<PackedMap> maps;
  for (const PackedCodes& codes : there) maps.push_back({&codes});
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Tensor rounded = x.to(type);
    const std::vector<Tensor> got = packed_products(rounded.to(at::kCUDA), maps);
    for (std::size_t i = 0; i < here.size(); ++i) {
      EXPECT_LT(error_of(got[i], at::linear(rounded.to(at::kDouble), unpack(here[i]).to(at::kDouble))),
                tolerance_of(type));
    }
  }
}

TEST_F(PackedOnCuda, CodesThatAreNotAlignedAreRefused) {
  PackedCodes there = codes_on_gpu(draw({PackedFormat::kInt8, 7, 20, 0}));
  EXPECT_FALSE(cuda_packed::applies(there));
  EXPECT_THROW(packed_product(at::zeros({1, 20}, at::kCUDA), there), ShapeError);
}

}  // namespace
}  // namespace easydel::operations
