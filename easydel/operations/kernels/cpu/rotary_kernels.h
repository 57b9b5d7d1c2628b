// Rows (one token each) of the rotary embedding. Included only by kernels.cpp.in.
#pragma once

#include "easydel/operations/kernels/cpu/kernels.h"
#include "easydel/operations/kernels/cpu/scalar.h"

namespace easydel::operations::kernels {
namespace {

// Rotates the pair (a, b) = (x[i], x[half + i]) by the angle, or back.
template <class A>
inline void rotate_halves(const A* x, A* y, const A* cos, const A* sin, int64_t half, A sign) {
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const A a = x[i], b = x[half + i], s = sin[i] * sign;
    y[i] = a * cos[i] - b * s;
    y[half + i] = b * cos[i] + a * s;
  }
}

template <class A>
inline void rotate_pairs(const A* x, A* y, const A* cos, const A* sin, int64_t half, A sign) {
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const A a = x[2 * i], b = x[2 * i + 1], s = sin[i] * sign;
    y[2 * i] = a * cos[i] - b * s;
    y[2 * i + 1] = b * cos[i] + a * s;
  }
}

constexpr int64_t kMaxHeadSize = 4096;  // apply_rotary rejects more

template <class T>
void rotary(const RotaryArgs& args, int64_t begin, int64_t end) {
  using A = acc_t<T>;
  const A sign = args.inverse ? A(-1) : A(1);
  const int64_t rotated = 2 * args.half;
  A scratch[sizeof(T) == 2 ? kMaxHeadSize : 1], result[sizeof(T) == 2 ? kMaxHeadSize : 1];
  for (int64_t row = begin; row < end; ++row) {
    const int64_t batch = row / args.tokens, token = row % args.tokens;
    const int64_t table = batch * args.table_batch + token * args.table_token;
    const A* cos = static_cast<const A*>(args.cos) + table;
    const A* sin = static_cast<const A*>(args.sin) + table;
    for (int64_t head = 0; head < args.heads; ++head) {
      const T* x = static_cast<const T*>(args.x) + batch * args.x_batch + token * args.x_token + head * args.x_head;
      T* y = static_cast<T*>(args.y) + (row * args.heads + head) * args.head_size;
      const A* in = load(x, scratch, rotated);
      A* out = target(y, result);
      if (args.interleaved) {
        rotate_pairs(in, out, cos, sin, args.half, sign);
      } else {
        rotate_halves(in, out, cos, sin, args.half, sign);
      }
      store(y, out, rotated);
      for (int64_t i = rotated; i < args.head_size; ++i) y[i] = x[i];
    }
  }
}

}  // namespace
}  // namespace easydel::operations::kernels
