// The GPU kernels that move rows to their experts and back, on raw pointers: compiled by nvcc without torch's headers.
// A row is (token, slot) = token * top_k + slot; sorted rows are those of expert 0, then those of expert 1, and so on.
#pragma once

#include <cstdint>

#include "easydel/operations/kernels/cuda/cuda_kernels.h"

namespace easydel::operations::cuda_kernels {

constexpr int32_t kMaxExperts = 1024;  // supported by the router and the sort

// How a token's logits become scores, and the scores of the experts that it chooses their weights.
enum class Scoring : uint8_t { None, Softmax, Sigmoid, SoftmaxOfChosen };
struct Router {
  int64_t tokens;
  int32_t count, top_k;  // top_k is at most count
  Scoring scoring;
  bool renormalize;
  float scale;
};

// The top_k experts of each token with the highest scores, highest first; of equal ones the first.
struct Route {
  const void* logits;  // [tokens, count]
  const float* bias;   // [count] or null: added to the scores for the choice
  float* weights;      // [tokens, top_k] or null
  int64_t* experts;    // [tokens, top_k]
};
void route(Element type, const Router& router, const Route& args, Stream stream);

struct RouteBackward {
  const void* logits;
  const float *weights, *d_weights;
  const int64_t* experts;
  void* d_logits;  // of the logits' type
};
void route_backward(Element type, const Router& router, const RouteBackward& args, Stream stream);

// Stable. An expert outside [0, count) traps, as torch's own index checks do.
struct SortByExpert {
  const int64_t* experts;  // [rows]
  int64_t* order;          // [rows] which row each sorted row is
  int64_t* inverse;        // [rows] where each row is sorted to
  int32_t* ends;           // [count]
  int32_t* scratch;        // sort_scratch() of them
  int64_t rows;
  int32_t count;
};
int64_t sort_scratch(int64_t rows, int32_t count);
void sort_by_expert(const SortByExpert& args, Stream stream);

// y[inverse[t * top_k + slot]] = x[t] for every slot. Rows of `row_bytes`, 16 bytes aligned.
struct SpreadRows {
  const void* x;
  const int64_t* inverse;
  void* y;
  int64_t tokens, top_k, row_bytes;
};
void spread_rows(const SpreadRows& args, Stream stream);

// y[t] = the sum of its top_k rows, each times its weight where there are weights. Rows are 16 bytes aligned.
struct SumRows {
  const void* rows;
  const int64_t* inverse;
  const float* weights;  // [tokens, top_k] or null
  void* y;
  int64_t tokens, top_k, width;
};
void sum_rows(Element type, const SumRows& args, Stream stream);

// The backward of act(gate) * up * weight, for sorted rows of gate and up, and d_y.
struct WeightedGateBackward {
  const void* gate_up;   // [rows, 2 * width]
  const void* d_y;       // [rows, width]: before the weight
  const float* weights;  // in the order of (token, slot)
  const int64_t* order;
  void* d_gate_up;   // [rows, 2 * width]
  void* weighted;    // [rows, width]: act(gate) * up * weight
  float* d_weights;  // in the order of (token, slot)
  int64_t rows, width;
  bool gelu;
};
void weighted_gate_backward(Element type, const WeightedGateBackward& args, Stream stream);

// The experts of a few tokens, without sorting rows: each token reads those that it chose. All matrices are dense and
// 16 bytes aligned.
constexpr int kMaxTokenExperts = 64, kMaxExpertTokens = 8;
struct ExpertsOfTokens {
  const void* x;           // [tokens, width]
  const int64_t* experts;  // [tokens, top_k]
  const float* weights;    // [tokens, top_k]
  const void* gate_up;     // [count, 2 * inner_width, width], the gate's rows first
  const void* down;        // [count, width, inner_width]
  void* inner;             // [tokens, top_k, inner_width]: act(gate) * up
  void* y;                 // [tokens, width]
  int64_t tokens, top_k, width, inner_width;
  int32_t count;
  bool gelu;
  RowNorm norm;          // of x
  const void* residual;  // [tokens, width], added to y, or null
};
bool can_multiply_tokens(Element type, const ExpertsOfTokens& args);
void multiply_tokens(Element type, const ExpertsOfTokens& args, Stream stream);

}  // namespace easydel::operations::cuda_kernels
