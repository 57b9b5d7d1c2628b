#include "easydel/sharding/reduce.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "easydel/core/dtype.h"
#include "easydel/core/error.h"

namespace easydel {
namespace {

constexpr int64_t kBlock = 2048;  // elements that are accumulated at a time, in the first-level cache

struct Buffers {
  std::span<const void* const> ins;
  std::span<void* const> outs;
  int64_t begin, end;
};

struct Sum {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

template <class T>
constexpr bool kIsSmallFloat = !std::is_arithmetic_v<T>;

template <class T, class Op>
void reduce_block(const Buffers& b, int64_t at, int64_t count) {
  using Accumulator = std::conditional_t<kIsSmallFloat<T>, float, T>;
  Accumulator sums[kBlock];
  const T* first = static_cast<const T*>(b.ins[0]) + at;
  for (int64_t i = 0; i < count; ++i) sums[i] = static_cast<Accumulator>(first[i]);
  for (std::size_t r = 1; r < b.ins.size(); ++r) {
    const T* in = static_cast<const T*>(b.ins[r]) + at;
    for (int64_t i = 0; i < count; ++i) sums[i] = Op::apply(sums[i], static_cast<Accumulator>(in[i]));
  }
  T* out = static_cast<T*>(b.outs[0]) + at;
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(sums[i]);
  for (std::size_t r = 1; r < b.outs.size(); ++r) {
    std::memcpy(static_cast<T*>(b.outs[r]) + at, out, count * sizeof(T));
  }
}

template <class T, class Op>
void reduce_all(const Buffers& b) {
  for (int64_t at = b.begin; at < b.end; at += kBlock) reduce_block<T, Op>(b, at, std::min(kBlock, b.end - at));
}

template <class T>
void reduce_as(ReduceOp op, const Buffers& b) {
  switch (op) {
    case ReduceOp::Sum: return reduce_all<T, Sum>(b);
    case ReduceOp::Max: return reduce_all<T, Max>(b);
    case ReduceOp::Min: return reduce_all<T, Min>(b);
  }
}

}  // namespace

bool can_reduce(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
    case at::kDouble:
    case at::kBFloat16:
    case at::kHalf:
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e5m2:
    case at::kLong:
    case at::kInt:
    case at::kShort:
    case at::kChar:
    case at::kByte: return true;
    default: return false;
  }
}

void reduce(at::ScalarType dtype, ReduceOp op, std::span<const void* const> ins, std::span<void* const> outs,
            int64_t begin, int64_t end) {
  const Buffers b{ins, outs, begin, end};
  switch (dtype) {
    case at::kFloat: return reduce_as<float>(op, b);
    case at::kDouble: return reduce_as<double>(op, b);
    case at::kBFloat16: return reduce_as<c10::BFloat16>(op, b);
    case at::kHalf: return reduce_as<c10::Half>(op, b);
    case at::kFloat8_e4m3fn: return reduce_as<c10::Float8_e4m3fn>(op, b);
    case at::kFloat8_e5m2: return reduce_as<c10::Float8_e5m2>(op, b);
    case at::kLong: return reduce_as<int64_t>(op, b);
    case at::kInt: return reduce_as<int32_t>(op, b);
    case at::kShort: return reduce_as<int16_t>(op, b);
    case at::kChar: return reduce_as<int8_t>(op, b);
    case at::kByte: return reduce_as<uint8_t>(op, b);
    default: fail<NotSupportedError>("[reduce] a reduction needs numbers; got ", dtype_name(dtype), ".");
  }
}

}  // namespace easydel
