// Rows of RMSNorm. Included only by kernels.cpp.in.
#pragma once

#include "easydel/operations/kernels/cpu/kernels.h"
#include "easydel/operations/kernels/cpu/scalar.h"

namespace easydel::operations::kernels {
namespace {

template <class T>
void rms_norm_forward(const RmsNormArgs& args, void* y_out, void* rstd_out, int64_t begin, int64_t end) {
  using A = acc_t<T>;
  const int64_t width = args.width;
  const A* factor = static_cast<const A*>(args.factor);
  A* rstd = static_cast<A*>(rstd_out);
  A scratch[kChunk], result[kChunk];
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(args.x) + row * width;
    T* y = static_cast<T*>(y_out) + row * width;
    A squares = 0;
    for (int64_t at = 0; at < width; at += kChunk) {
      const int64_t count = width - at < kChunk ? width - at : kChunk;
      const A* in = load(x + at, scratch, count);
#pragma omp simd reduction(+ : squares)
      for (int64_t i = 0; i < count; ++i) squares += in[i] * in[i];
    }
    const A scale = A(1) / std::sqrt(squares / A(width) + A(args.eps));
    rstd[row] = scale;
    for (int64_t at = 0; at < width; at += kChunk) {
      const int64_t count = width - at < kChunk ? width - at : kChunk;
      const A* in = load(x + at, scratch, count);
      const A* f = factor + at;
      A* out = target(y + at, result);
      if (args.cast_first) {
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) out[i] = rounded<T>(in[i] * scale) * f[i];
      } else {
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) out[i] = in[i] * scale * f[i];
      }
      store(y + at, out, count);
    }
  }
}

// With n = x * rstd: d_x = rstd * (d_y * f - n * mean(d_y * f * n)), d_f = sum over rows of d_y * n.
template <class T>
void rms_norm_backward(const RmsNormArgs& args, const void* rstd_in, const void* d_y_in, void* d_x_out, void* d_factor,
                       int64_t begin, int64_t end) {
  using A = acc_t<T>;
  const int64_t width = args.width;
  const A* factor = static_cast<const A*>(args.factor);
  A* d_f = static_cast<A*>(d_factor);
  A x_scratch[kChunk], g_scratch[kChunk], result[kChunk];
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(args.x) + row * width;
    const T* d_y = static_cast<const T*>(d_y_in) + row * width;
    const A scale = static_cast<const A*>(rstd_in)[row];
    A dot = 0;
    for (int64_t at = 0; at < width; at += kChunk) {
      const int64_t count = width - at < kChunk ? width - at : kChunk;
      const A* in = load(x + at, x_scratch, count);
      const A* g = load(d_y + at, g_scratch, count);
      const A* f = factor + at;
      if (d_f) {
        A* sum = d_f + at;
#pragma omp simd reduction(+ : dot)
        for (int64_t i = 0; i < count; ++i) {
          const A product = g[i] * in[i] * scale;
          sum[i] += product;
          dot += product * f[i];
        }
      } else {
#pragma omp simd reduction(+ : dot)
        for (int64_t i = 0; i < count; ++i) dot += g[i] * in[i] * scale * f[i];
      }
    }
    if (!d_x_out) continue;
    T* d_x = static_cast<T*>(d_x_out) + row * width;
    const A mean = dot / A(width) * scale;
    for (int64_t at = 0; at < width; at += kChunk) {
      const int64_t count = width - at < kChunk ? width - at : kChunk;
      const A* in = load(x + at, x_scratch, count);
      const A* g = load(d_y + at, g_scratch, count);
      const A* f = factor + at;
      A* out = target(d_x + at, result);
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) out[i] = scale * (g[i] * f[i] - in[i] * mean);
      store(d_x + at, out, count);
    }
  }
}

}  // namespace
}  // namespace easydel::operations::kernels
