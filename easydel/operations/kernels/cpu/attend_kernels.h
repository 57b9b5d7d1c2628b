// A query token over the keys of a cache. Included only by kernels.cpp.in.
#pragma once

#include "easydel/operations/kernels/cpu/gemv_kernels.h"
#include "easydel/operations/kernels/cpu/kernels.h"
#include "easydel/operations/kernels/cpu/softmax_kernels.h"

namespace easydel::operations::kernels {
namespace {

// Continues the online softmax of `heads` queries, which share a key/value head, over a run of keys.
template <class T>
void attend_run(const AttendArgs& args, const void* q_in, const void* k_in, const void* v_in, int64_t count,
                void* maximum_io, void* sum_io, void* out_io) {
  using A = acc_t<T>;
  constexpr int64_t kBlock = 32;
  const A* q = static_cast<const A*>(q_in);
  A* maximum = static_cast<A*>(maximum_io);
  A* sum = static_cast<A*>(sum_io);
  A* out = static_cast<A*>(out_io);
  A scores[kBlock];
  A wide_rows[sizeof(T) == sizeof(A) ? 1 : kBlock * kMaxHeadDim];
  const ScoreArgs score_args{kBlock, args.scale, args.softcap};
  // Rows as A: in place, or copied for the heads that share them.
  const auto rows = [&](const T* from, int64_t stride, int64_t width, int64_t n, int64_t& row_stride) -> const A* {
    if constexpr (sizeof(T) == sizeof(A)) {
      row_stride = stride;
      return from;
    } else if constexpr (sizeof(T) == 1) {  // codes, followed by the scale
      row_stride = width;
      for (int64_t j = 0; j < n; ++j) {
        const T* codes = from + j * stride;
        float scale;
        __builtin_memcpy(&scale, codes + width, sizeof scale);
        A* wide = wide_rows + j * width;
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) wide[i] = scale * static_cast<A>(codes[i]);
      }
      return wide_rows;
    } else {
      row_stride = width;
      for (int64_t j = 0; j < n; ++j) load(from + j * stride, wide_rows + j * width, width);
      return wide_rows;
    }
  };
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t n = count - at < kBlock ? count - at : kBlock;
    A all_scores[kMaxSharedHeads][kBlock];
    int64_t stride = 0;
    const A* k = rows(static_cast<const T*>(k_in) + at * args.k_stride, args.k_stride, args.k_size, n, stride);
    for (int64_t g = 0; g < args.heads; ++g) {
      const A* query = q + g * args.k_size;
      for (int64_t j = 0; j < n; ++j) all_scores[g][j] = dot(k + j * stride, query, args.k_size);
    }
    const A* v = rows(static_cast<const T*>(v_in) + at * args.v_stride, args.v_stride, args.v_size, n, stride);
    for (int64_t g = 0; g < args.heads; ++g) {
      for (int64_t j = 0; j < n; ++j) scores[j] = all_scores[g][j];
      ScoreArgs block = score_args;
      block.columns = n;
      const A* bias = args.bias ? static_cast<const A*>(args.bias) + g * args.bias_head + at : nullptr;
      const uint8_t* visible = args.visible ? args.visible + at : nullptr;
      const A correction = A(softmax_step<A>(block, scores, 0, n, visible, bias, maximum + g, sum + g));
      A* o = out + g * args.v_size;
      if (correction != A(1)) {
#pragma omp simd
        for (int64_t i = 0; i < args.v_size; ++i) o[i] *= correction;
      }
      // A few elements of the sum at a time, which stay in registers.
      constexpr int64_t kWidth = 64;
      int64_t at_value = 0;
      for (; at_value + kWidth <= args.v_size; at_value += kWidth) {
        A part[kWidth];
        for (int64_t i = 0; i < kWidth; ++i) part[i] = o[at_value + i];
        for (int64_t j = 0; j < n; ++j) {
          const A weight = scores[j];
          const A* value = v + j * stride + at_value;
#pragma omp simd
          for (int64_t i = 0; i < kWidth; ++i) part[i] += weight * value[i];
        }
        for (int64_t i = 0; i < kWidth; ++i) o[at_value + i] = part[i];
      }
      for (int64_t j = 0; j < n && at_value < args.v_size; ++j) {
        const A weight = scores[j];
        const A* value = v + j * stride;
#pragma omp simd
        for (int64_t i = at_value; i < args.v_size; ++i) o[i] += weight * value[i];
      }
    }
  }
}

}  // namespace
}  // namespace easydel::operations::kernels
