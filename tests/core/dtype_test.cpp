#include "easydel/core/dtype.h"

#include <gmock/gmock.h>

#include "easydel/core/error.h"

namespace easydel {
namespace {

TEST(ParseDtype, KnowsBothFamiliesOfNames) {
  EXPECT_EQ(parse_dtype("bf16"), bfloat16);
  EXPECT_EQ(parse_dtype("bfloat16"), bfloat16);
  EXPECT_EQ(parse_dtype("torch.bfloat16"), bfloat16);
  EXPECT_EQ(parse_dtype("jnp.float32"), float32);
  EXPECT_EQ(parse_dtype("FP16"), float16);
  EXPECT_EQ(parse_dtype("fp8_e4m3"), float8_e4m3fn);
  EXPECT_EQ(parse_dtype("float8_e5m2"), float8_e5m2);
  EXPECT_EQ(parse_dtype("bool"), boolean);
}

TEST(ParseDtype, ParsesItsOwnNames) {
  for (DType dtype : {float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, int64, int32, int16, int8, uint8,
                      uint16, uint32, uint64, boolean}) {
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
  }
}

TEST(ParseDtype, NamesTheKnownOnes) {
  EXPECT_THAT(
      [] { parse_dtype("bfloat_16"); },
      testing::ThrowsMessage<ConfigError>(
          "[parse_dtype] unknown dtype \"bfloat_16\"; known: float64 (fp64), float32 (fp32), float16 (fp16), bfloat16 "
          "(bf16), float8_e4m3fn (fp8_e4m3), float8_e5m2 (fp8_e5m2), int64 (i64), int32 (i32), int16 (i16), int8 (i8), "
          "uint8 (u8), uint16 (u16), uint32 (u32), uint64 (u64), bool. Did you mean \"bfloat16\"?"));
}

TEST(DtypeBytes, IsTorchsElementSize) {
  for (DType dtype : {float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, int64, int32, int16, int8, uint8,
                      uint16, uint32, uint64, boolean, DType::ComplexDouble, DType::ComplexHalf}) {
    EXPECT_EQ(dtype_bytes(dtype), static_cast<int64_t>(c10::elementSize(dtype))) << dtype_name(dtype);
  }
  EXPECT_THAT(
      [] { dtype_bytes(DType::Undefined); },
      testing::ThrowsMessage<ConfigError>("[dtype_bytes] " + dtype_name(DType::Undefined) + " has no element size."));
}

}  // namespace
}  // namespace easydel
