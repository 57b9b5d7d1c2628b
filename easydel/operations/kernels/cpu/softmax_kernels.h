// Rows of softmax: the cross-entropy over a vocabulary and the blocks of attention. Included only by kernels.cpp.in.
#pragma once

#include "easydel/operations/kernels/cpu/kernels.h"
#include "easydel/operations/kernels/cpu/scalar.h"

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
    // Sums blocks, and the blocks in double: one float32 sum over the vocabulary would lose precision.
    constexpr int64_t kBlock = 256;
    double sum = 0, total = 0;
    for (int64_t first = 0; first < n; first += kBlock) {
      const int64_t last = n - first < kBlock ? n : first + kBlock;
      A block_sum = 0, block_total = 0;
#pragma omp simd reduction(+ : block_sum, block_total)
      for (int64_t i = first; i < last; ++i) {
        block_sum += exp_of(x[i] - maximum);
        block_total += x[i];
      }
      sum += double(block_sum);
      total += double(block_total);
    }
    const A log_sum = A(double(maximum) + std::log(sum));
    const A mean = A(total / double(n));
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

template <class A>
inline void clear_outside(A* row, int64_t low, int64_t high, int64_t columns) {
  for (int64_t i = 0; i < low; ++i) row[i] = A(0);
  for (int64_t i = high; i < columns; ++i) row[i] = A(0);
}

// Applies bias and soft cap to raw scores, if any; hidden ones become -inf. d_row, if given, is multiplied by the slope
// of the soft cap.
template <class A>
inline void finish_scores(const ScoreArgs& args, A* row, int64_t low, int64_t high, const uint8_t* visible,
                          const A* bias, A* d_row) {
  const A scale = A(args.scale), cap = A(args.softcap);
  if (cap == A(0)) {
#pragma omp simd
    for (int64_t i = low; i < high; ++i) row[i] *= scale;
  } else if (d_row) {
#pragma omp simd
    for (int64_t i = low; i < high; ++i) {
      const A t = tanh_of(row[i] * scale / cap);
      row[i] = cap * t;
      d_row[i] *= A(1) - t * t;
    }
  } else {
#pragma omp simd
    for (int64_t i = low; i < high; ++i) row[i] = cap * tanh_of(row[i] * scale / cap);
  }
  if (bias) {
#pragma omp simd
    for (int64_t i = low; i < high; ++i) row[i] += bias[i];
  }
  if (visible) {
#pragma omp simd
    for (int64_t i = low; i < high; ++i) row[i] = visible[i] ? row[i] : kMinusInfinity<A>;
  }
}

// Whether a score is the raw one times a positive scale, so that it need not be stored.
inline bool is_plain(const ScoreArgs& args, const uint8_t* visible, const void* bias) {
  return args.softcap == 0.0 && args.scale > 0.0 && !visible && !bias;
}

template <class A>
double softmax_step(const ScoreArgs& args, void* row_io, int64_t low, int64_t high, const uint8_t* visible,
                    const void* bias, void* maximum_io, void* sum_io) {
  A* row = static_cast<A*>(row_io);
  A& maximum = *static_cast<A*>(maximum_io);
  A& sum = *static_cast<A*>(sum_io);
  clear_outside(row, low, high, args.columns);
  A scale = A(args.scale);
  if (!is_plain(args, visible, bias)) {
    finish_scores(args, row, low, high, visible, static_cast<const A*>(bias), static_cast<A*>(nullptr));
    scale = A(1);
  }
  A block_maximum = kMinusInfinity<A>;
#pragma omp simd reduction(max : block_maximum)
  for (int64_t i = low; i < high; ++i) block_maximum = row[i] > block_maximum ? row[i] : block_maximum;
  block_maximum *= scale;
  const A before = maximum;
  const A now = block_maximum > before ? block_maximum : before;
  if (!(now > kMinusInfinity<A>)) {  // nothing seen yet
    for (int64_t i = low; i < high; ++i) row[i] = A(0);
    return 1.0;
  }
  A block_sum = 0;
#pragma omp simd reduction(+ : block_sum)
  for (int64_t i = low; i < high; ++i) {
    const A p = exp_of(row[i] * scale - now);
    row[i] = p;
    block_sum += p;
  }
  const A correction = exp_of(before - now);
  sum = sum * correction + block_sum;
  maximum = now;
  return correction;
}

template <class A>
void softmax_gradient(const ScoreArgs& args, void* row_io, void* d_row_io, int64_t low, int64_t high,
                      const uint8_t* visible, const void* bias, double lse_in, double delta_in) {
  A* row = static_cast<A*>(row_io);
  A* d_row = static_cast<A*>(d_row_io);
  const A lse = A(lse_in), delta = A(delta_in), raw_scale = A(args.scale);
  if (!(lse > kMinusInfinity<A>)) high = low;  // this query has no visible keys
  clear_outside(row, low, high, args.columns);
  clear_outside(d_row, low, high, args.columns);
#pragma omp simd
  for (int64_t i = low; i < high; ++i) d_row[i] = (d_row[i] - delta) * raw_scale;
  A scale = raw_scale;
  if (!is_plain(args, visible, bias)) {
    finish_scores(args, row, low, high, visible, static_cast<const A*>(bias), d_row);
    scale = A(1);
  }
#pragma omp simd
  for (int64_t i = low; i < high; ++i) {
    const A p = exp_of(row[i] * scale - lse);
    row[i] = p;
    d_row[i] *= p;
  }
}

}  // namespace
}  // namespace easydel::operations::kernels
