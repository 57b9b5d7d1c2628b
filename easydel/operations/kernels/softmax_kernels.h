// Rows of softmax: the cross-entropy over a vocabulary and the blocks of attention. Included by kernels.cpp.in alone.
#pragma once

#include "easydel/operations/kernels/kernels.h"
#include "easydel/operations/kernels/scalar.h"

namespace easydel::operations::kernels {
namespace {

template <class A>
constexpr A kMinusInfinity = -A(__builtin_huge_val());

template <class A>
void cross_entropy(const CrossEntropyArgs& args, void* logits_io, const int64_t* labels, const void* row_scale,
                   void* nll_out, void* lse_out, uint8_t* correct, int64_t begin, int64_t end) {
  const int64_t n = args.vocabulary;
  const A scale = A(args.scale), cap = A(args.softcap), smoothing = A(args.label_smoothing);
  A* nll = static_cast<A*>(nll_out);
  A* lse = static_cast<A*>(lse_out);
  for (int64_t row = begin; row < end; ++row) {
    A* x = static_cast<A*>(logits_io) + row * n;
    const int64_t label = labels[row];
    if (label == args.ignore_index) {
      nll[row] = lse[row] = A(0);
      correct[row] = 0;
      if (row_scale) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) x[i] = A(0);
      }
      continue;
    }
    if (cap != A(0)) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) x[i] = cap * tanh_of(x[i] * scale / cap);
    } else if (scale != A(1)) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) x[i] *= scale;
    }
    A maximum = kMinusInfinity<A>;
#pragma omp simd reduction(max : maximum)
    for (int64_t i = 0; i < n; ++i) maximum = x[i] > maximum ? x[i] : maximum;
    A sum = 0, total = 0;
#pragma omp simd reduction(+ : sum, total)
    for (int64_t i = 0; i < n; ++i) {
      sum += exp_of(x[i] - maximum);
      total += x[i];
    }
    const A log_sum = maximum + std::log(sum);
    const A mean = total / A(n);
    nll[row] = (A(1) - smoothing) * (log_sum - x[label]) + smoothing * (log_sum - mean);
    lse[row] = log_sum;
    correct[row] = x[label] >= maximum;
    if (!row_scale) continue;

    // d loss / d x = p * (1 + 2 z lse) - (1 - smoothing) [label] - smoothing / n, then back through cap and scale.
    const A weight = static_cast<const A*>(row_scale)[row];
    const A p_factor = weight * (A(1) + A(2) * A(args.z_loss) * log_sum);
    const A spread = weight * smoothing / A(n);
    const A on_label = weight * (A(1) - smoothing);
    const A label_slope = cap != A(0) ? scale * (A(1) - (x[label] / cap) * (x[label] / cap)) : scale;
    if (cap != A(0)) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const A ratio = x[i] / cap;
        x[i] = (exp_of(x[i] - log_sum) * p_factor - spread) * scale * (A(1) - ratio * ratio);
      }
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) x[i] = (exp_of(x[i] - log_sum) * p_factor - spread) * scale;
    }
    x[label] -= on_label * label_slope;
  }
}

// Raw scores to scores in place; hidden ones become -inf. The largest is returned.
template <class A>
inline A finish_scores(const ScoreArgs& args, A* row, int64_t low, int64_t high, const uint8_t* visible, const A* bias) {
  const A scale = A(args.scale), cap = A(args.softcap);
  A maximum = kMinusInfinity<A>;
  if (cap != A(0)) {
#pragma omp simd
    for (int64_t i = low; i < high; ++i) row[i] = cap * tanh_of(row[i] * scale / cap);
  } else {
#pragma omp simd
    for (int64_t i = low; i < high; ++i) row[i] *= scale;
  }
  if (bias) {
#pragma omp simd
    for (int64_t i = low; i < high; ++i) row[i] += bias[i];
  }
  if (visible) {
#pragma omp simd
    for (int64_t i = low; i < high; ++i) row[i] = visible[i] ? row[i] : kMinusInfinity<A>;
  }
#pragma omp simd reduction(max : maximum)
  for (int64_t i = low; i < high; ++i) maximum = row[i] > maximum ? row[i] : maximum;
  return maximum;
}

template <class A>
inline void clear_outside(A* row, int64_t low, int64_t high, int64_t columns) {
  for (int64_t i = 0; i < low; ++i) row[i] = A(0);
  for (int64_t i = high; i < columns; ++i) row[i] = A(0);
}

// exp_of(-inf) is tiny but not zero, so hidden scores are cleared by hand.
template <class A>
inline A exp_or_zero(A x) {
  return x > kMinusInfinity<A> ? exp_of(x) : A(0);
}

template <class A>
double softmax_step(const ScoreArgs& args, void* row_io, int64_t low, int64_t high, const uint8_t* visible,
                    const void* bias, void* maximum_io, void* sum_io) {
  A* row = static_cast<A*>(row_io);
  A& maximum = *static_cast<A*>(maximum_io);
  A& sum = *static_cast<A*>(sum_io);
  if (high < low) high = low;
  clear_outside(row, low, high, args.columns);
  const A block_maximum = finish_scores(args, row, low, high, visible, static_cast<const A*>(bias));
  const A before = maximum;
  maximum = block_maximum > before ? block_maximum : before;
  if (!(maximum > kMinusInfinity<A>)) {  // nothing seen yet
    for (int64_t i = low; i < high; ++i) row[i] = A(0);
    return 1.0;
  }
  A block_sum = 0;
  const A shift = maximum;
#pragma omp simd reduction(+ : block_sum)
  for (int64_t i = low; i < high; ++i) {
    const A p = exp_or_zero(row[i] - shift);
    row[i] = p;
    block_sum += p;
  }
  const A correction = before > kMinusInfinity<A> ? exp_of(before - maximum) : A(0);
  sum = sum * correction + block_sum;
  return correction;
}

template <class A>
void probabilities(const ScoreArgs& args, void* row_io, int64_t low, int64_t high, const uint8_t* visible,
                   const void* bias, double lse_in, void* slope_out) {
  A* row = static_cast<A*>(row_io);
  A* slope = static_cast<A*>(slope_out);
  const A lse = A(lse_in), cap = A(args.softcap), scale = A(args.scale);
  if (high < low) high = low;
  clear_outside(row, low, high, args.columns);
  if (!(lse > kMinusInfinity<A>)) {  // this query sees nothing at all
    for (int64_t i = low; i < high; ++i) row[i] = A(0);
  }
  if (slope) {
    clear_outside(slope, low, high, args.columns);
#pragma omp simd
    for (int64_t i = low; i < high; ++i) {
      const A t = tanh_of(row[i] * scale / cap);
      slope[i] = A(1) - t * t;
    }
  }
  if (!(lse > kMinusInfinity<A>)) return;
  finish_scores(args, row, low, high, visible, static_cast<const A*>(bias));
#pragma omp simd
  for (int64_t i = low; i < high; ++i) row[i] = exp_or_zero(row[i] - lse);
}

// d raw = p * (d_p - delta) * slope * scale.
template <class A>
void softmax_backward(const ScoreArgs& args, const void* row_in, void* d_row_io, double delta_in, const void* slope_in) {
  const A* p = static_cast<const A*>(row_in);
  A* d = static_cast<A*>(d_row_io);
  const A delta = A(delta_in), scale = A(args.scale);
  if (slope_in) {
    const A* slope = static_cast<const A*>(slope_in);
#pragma omp simd
    for (int64_t i = 0; i < args.columns; ++i) d[i] = p[i] * (d[i] - delta) * slope[i] * scale;
  } else {
#pragma omp simd
    for (int64_t i = 0; i < args.columns; ++i) d[i] = p[i] * (d[i] - delta) * scale;
  }
}

}  // namespace
}  // namespace easydel::operations::kernels
