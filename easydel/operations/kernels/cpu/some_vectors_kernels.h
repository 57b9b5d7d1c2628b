// Float32 matrices times some vectors, from 5 on: a block of sums in registers, over the matrix as it lies in memory.
// Libraries pack it for every product, which takes longer than these sums. Included only by kernels.cpp.in.
#pragma once

#if defined(__AVX2__)
#include "easydel/operations/kernels/cpu/float_lanes.h"
#endif
#include "easydel/operations/kernels/cpu/kernels.h"

namespace easydel::operations::kernels {
namespace {

#if defined(__AVX2__)
constexpr int kBlockVectors = FloatLanes::kHasSpare ? 4 : 3;

// R rows of the weight, at most 4, times V vectors. A sum has the same bits in every block that it may be a part of.
template <int R, int V>
inline void multiply_block(const GemvArgs& args, int64_t row, int64_t vector) {
  const float* const w = static_cast<const float*>(args.weight) + row * args.width;
  const float* const x = static_cast<const float*>(args.x) + vector * args.width;
  FloatLanes::Vector sums[4][V];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sums[r][v] = FloatLanes::zero();
  const auto add = [&](int64_t i, auto&& load) __attribute__((always_inline)) {
    if (vector == 0) {  // the rows that come next, while these are read for the first time
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) __builtin_prefetch(w + (R + r) * args.width + i);
    }
    FloatLanes::Vector values[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) values[v] = load(x + v * args.width + i);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const FloatLanes::Vector weights = load(w + r * args.width + i);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] = FloatLanes::add_product(weights, values[v], sums[r][v]);
    }
  };
  int64_t i = 0;
  for (; i + FloatLanes::kCount <= args.width; i += FloatLanes::kCount)
    add(i, [](const float* from) { return FloatLanes::load(from); });
  if (const int64_t rest = args.width - i; rest > 0)
    add(i, [mask = FloatLanes::first(rest)](const float* from) { return FloatLanes::load(from, mask); });
  const auto* const bias = static_cast<const float*>(args.bias);
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    float totals[4];
    _mm_storeu_ps(totals, FloatLanes::totals(sums[0][v], sums[1][v], sums[2][v], sums[3][v]));
    float* const y = static_cast<float*>(args.y) + (vector + v) * args.y_row + row;
    for (int r = 0; r < R; ++r) y[r] = bias ? totals[r] + bias[row + r] : totals[r];
  }
}

template <int R>
inline void multiply_rows(const GemvArgs& args, int64_t row) {
  constexpr int kMost = kBlockVectors;
  int64_t v = 0;
  for (; v + kMost <= args.vectors; v += kMost) multiply_block<R, kMost>(args, row, v);
  switch (args.vectors - v) {
    case 3: return multiply_block<R, 3>(args, row, v);
    case 2: return multiply_block<R, 2>(args, row, v);
    case 1: return multiply_block<R, 1>(args, row, v);
    default: return;
  }
}

void some_vectors(const GemvArgs& args, int64_t begin, int64_t end) {
  int64_t row = begin;
  for (; row + 4 <= end; row += 4) multiply_rows<4>(args, row);
  for (; row < end; ++row) multiply_rows<1>(args, row);
}
constexpr auto kSomeVectors = &some_vectors;
#else
constexpr void (*kSomeVectors)(const GemvArgs&, int64_t, int64_t) = nullptr;
#endif

}  // namespace
}  // namespace easydel::operations::kernels
