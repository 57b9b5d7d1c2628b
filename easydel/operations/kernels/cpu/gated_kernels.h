// Rows of act(gate) * up. Included only by kernels.cpp.in.
#pragma once

#include "easydel/operations/kernels/cpu/kernels.h"
#include "easydel/operations/kernels/cpu/scalar.h"

namespace easydel::operations::kernels {
namespace {

template <class A>
struct SiluGate {
  static A value(A x) { return x * sigmoid_of(x); }
  static void value_and_slope(A x, A& value, A& slope) {
    const A s = sigmoid_of(x);
    value = x * s;
    slope = s + value * (A(1) - s);
  }
};

template <class A>
struct GeluTanhGate {
  static constexpr A kRoot = A(0.79788456080286535588);  // sqrt(2 / pi)
  static constexpr A kCubic = A(0.044715);
  static A value(A x) { return A(0.5) * x * (A(1) + tanh_of(kRoot * (x + kCubic * x * x * x))); }
  static void value_and_slope(A x, A& value, A& slope) {
    const A t = tanh_of(kRoot * (x + kCubic * x * x * x));
    value = A(0.5) * x * (A(1) + t);
    slope = A(0.5) * (A(1) + t) + A(0.5) * x * (A(1) - t * t) * kRoot * (A(1) + A(3) * kCubic * x * x);
  }
};

template <class T, template <class> class Act>
void gate_forward(const GatedArgs& args, void* y_out, int64_t begin, int64_t end) {
  using A = acc_t<T>;
  A gate_scratch[kChunk], up_scratch[kChunk], result[kChunk];
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = static_cast<const T*>(args.gate) + row * args.gate_row;
    const T* up = static_cast<const T*>(args.up) + row * args.up_row;
    T* y = static_cast<T*>(y_out) + row * args.width;
    for (int64_t at = 0; at < args.width; at += kChunk) {
      const int64_t count = args.width - at < kChunk ? args.width - at : kChunk;
      const A* g = load(gate + at, gate_scratch, count);
      const A* u = load(up + at, up_scratch, count);
      A* out = target(y + at, result);
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) out[i] = Act<A>::value(g[i]) * u[i];
      store(y + at, out, count);
    }
  }
}

template <class T, template <class> class Act>
void gate_backward(const GatedArgs& args, const void* d_y_in, void* d_gate_out, void* d_up_out, int64_t d_row,
                   int64_t begin, int64_t end) {
  using A = acc_t<T>;
  A gate_scratch[kChunk], up_scratch[kChunk], d_scratch[kChunk], gate_result[kChunk], up_result[kChunk];
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = static_cast<const T*>(args.gate) + row * args.gate_row;
    const T* up = static_cast<const T*>(args.up) + row * args.up_row;
    const T* d_y = static_cast<const T*>(d_y_in) + row * args.width;
    T* d_gate = static_cast<T*>(d_gate_out) + row * d_row;
    T* d_up = static_cast<T*>(d_up_out) + row * d_row;
    for (int64_t at = 0; at < args.width; at += kChunk) {
      const int64_t count = args.width - at < kChunk ? args.width - at : kChunk;
      const A* g = load(gate + at, gate_scratch, count);
      const A* u = load(up + at, up_scratch, count);
      const A* d = load(d_y + at, d_scratch, count);
      A* out_gate = target(d_gate + at, gate_result);
      A* out_up = target(d_up + at, up_result);
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) {
        A value, slope;
        Act<A>::value_and_slope(g[i], value, slope);
        out_up[i] = d[i] * value;
        out_gate[i] = d[i] * u[i] * slope;
      }
      store(d_gate + at, out_gate, count);
      store(d_up + at, out_up, count);
    }
  }
}

template <class T, template <class> class Act>
void weighted_backward(const GatedArgs& args, const WeightedArgs& weighted, int64_t begin, int64_t end) {
  using A = acc_t<T>;
  A gate_scratch[kChunk], up_scratch[kChunk], d_scratch[kChunk], gate_result[kChunk], up_result[kChunk],
      y_result[kChunk];
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = static_cast<const T*>(args.gate) + row * args.gate_row;
    const T* up = static_cast<const T*>(args.up) + row * args.up_row;
    const T* d_y = static_cast<const T*>(weighted.d_y) + row * args.width;
    T* y = static_cast<T*>(weighted.y) + row * args.width;
    T* d_gate = static_cast<T*>(weighted.d_gate) + row * weighted.d_row;
    T* d_up = static_cast<T*>(weighted.d_up) + row * weighted.d_row;
    A one;
    const A weight = *load(static_cast<const T*>(weighted.weights) + row, &one, 1);
    A sum = 0;
    for (int64_t at = 0; at < args.width; at += kChunk) {
      const int64_t count = args.width - at < kChunk ? args.width - at : kChunk;
      const A* g = load(gate + at, gate_scratch, count);
      const A* u = load(up + at, up_scratch, count);
      const A* d = load(d_y + at, d_scratch, count);
      A* out_gate = target(d_gate + at, gate_result);
      A* out_up = target(d_up + at, up_result);
      A* out = target(y + at, y_result);
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < count; ++i) {
        A value, slope;
        Act<A>::value_and_slope(g[i], value, slope);
        const A product = value * u[i], upstream = d[i] * weight;
        sum += product * d[i];
        out[i] = product * weight;
        out_up[i] = upstream * value;
        out_gate[i] = upstream * u[i] * slope;
      }
      store(d_gate + at, out_gate, count);
      store(d_up + at, out_up, count);
      store(y + at, out, count);
    }
    T* d_weight = static_cast<T*>(weighted.d_weights) + row;
    A* total = target(d_weight, &one);
    *total = sum;
    store(d_weight, total, 1);
  }
}

}  // namespace
}  // namespace easydel::operations::kernels
