// The CPU kernels of the fused operations, as a table of functions for each instruction set.
#pragma once

#include <cstdint>

// "acc" is the type that is computed in: double for float64 elements, float for all others. Pointers to elements are
// void, so that one table serves all element types. Strides count elements; the last dimension is dense. Every kernel
// works on rows [begin, end), to be called from a parallel loop.
namespace easydel::operations::kernels {

struct RmsNormArgs {
  const void* x;       // [rows, width]
  const void* factor;  // acc [width]
  int64_t width;
  double eps;
  bool cast_first;  // round the normalized value to the element type before it is multiplied
};

struct RotaryArgs {
  const void* x;  // [batch, tokens, heads, head_size]
  int64_t x_batch, x_token, x_head;
  void* y;  // dense
  int64_t tokens, heads, head_size;
  const void* cos;  // acc, rows of `half`
  const void* sin;
  int64_t table_batch, table_token;
  int64_t half;  // rotated dimensions / 2
  bool interleaved;
  bool inverse;
};

struct GatedArgs {
  const void* gate;
  const void* up;
  int64_t gate_row, up_row;
  int64_t width;
};

// Rows y that are each multiplied by a weight after the gate: from d_y, the gradient of the result, to those of gate,
// up and the weights. y is overwritten by the weighted rows.
struct WeightedArgs {
  const void* weights;
  const void* d_y;
  void* d_weights;
  void* y;
  void* d_gate;
  void* d_up;
  int64_t d_row;
};

struct CrossEntropyArgs {
  int64_t vocabulary;
  int64_t ignore_index;
  double label_smoothing;
  double z_loss;
  double scale;    // of the logits
  double softcap;  // 0: none
};

// Transforms the scores of attention in a block of `columns` keys.
struct ScoreArgs {
  int64_t columns;
  double scale;
  double softcap;
};

// y[v, row] = weight[row] . x[v] + bias[row], for rows of the weight.
struct GemvArgs {
  const void* weight;  // [rows, width]
  const void* x;       // acc [vectors, width]
  const void* bias;    // [rows] or null
  void* y;             // [vectors, rows], y_row apart
  int64_t width, vectors, y_row;
};

// Queries of one token that share a key/value head; the keys of a run are k_stride apart.
struct AttendArgs {
  int64_t heads;  // at most kMaxSharedHeads
  int64_t k_size, v_size;
  int64_t k_stride, v_stride;
  double scale, softcap;
  // For the keys of the run: whether each is seen, and acc values that are added to the scores of the heads.
  const uint8_t* visible = nullptr;
  const void* bias = nullptr;  // bias_head apart
  int64_t bias_head = 0;
};
constexpr int64_t kMaxSharedHeads = 32;
constexpr int64_t kMaxHeadDim = 1024;

struct ElementKernels {
  void (*rms_norm_forward)(const RmsNormArgs&, void* y, void* rstd, int64_t begin, int64_t end);
  // d_factor (acc [width], may be null) is added to; d_x (may be null) is written.
  void (*rms_norm_backward)(const RmsNormArgs&, const void* rstd, const void* d_y, void* d_x, void* d_factor,
                            int64_t begin, int64_t end);
  void (*rotary)(const RotaryArgs&, int64_t begin, int64_t end);
  void (*silu_gate_forward)(const GatedArgs&, void* y, int64_t begin, int64_t end);
  void (*silu_gate_backward)(const GatedArgs&, const void* d_y, void* d_gate, void* d_up, int64_t d_row, int64_t begin,
                             int64_t end);
  void (*gelu_tanh_gate_forward)(const GatedArgs&, void* y, int64_t begin, int64_t end);
  void (*gelu_tanh_gate_backward)(const GatedArgs&, const void* d_y, void* d_gate, void* d_up, int64_t d_row,
                                  int64_t begin, int64_t end);
  void (*silu_weighted_backward)(const GatedArgs&, const WeightedArgs&, int64_t begin, int64_t end);
  void (*gelu_tanh_weighted_backward)(const GatedArgs&, const WeightedArgs&, int64_t begin, int64_t end);
  void (*gemv)(const GemvArgs&, int64_t begin, int64_t end);
  // Continues the online softmax over `count` more keys: maximum and sum [heads], out [heads, v_size], unnormalized.
  void (*attend_run)(const AttendArgs&, const void* q, const void* k, const void* v, int64_t count, void* maximum,
                     void* sum, void* out);
};

// Only for accumulation types.
struct AccKernels {
  // Overwrites logits [rows, vocabulary] with their gradient times row_scale (null: scratch). Writes each row's
  // negative log likelihood (smoothed, without z-loss), log-sum-exp and whether the label has the highest logit.
  // Ignored rows give zeros.
  void (*cross_entropy)(const CrossEntropyArgs&, void* logits, const int64_t* labels, const void* row_scale, void* nll,
                        void* lse, uint8_t* correct, int64_t begin, int64_t end);

  // One step of the online softmax on a row: raw scores in [low, high) become exp(score - max), all else zero.
  // `visible` (bytes) and `bias` may be null. maximum and sum are updated; returns the factor for earlier results of
  // this row.
  double (*softmax_step)(const ScoreArgs&, void* row, int64_t low, int64_t high, const uint8_t* visible,
                         const void* bias, void* maximum, void* sum);
  // Raw scores become probabilities p = exp(score - lse), and d_row, the gradient of p, that of the raw scores:
  // p * (d_row - delta) * d score / d raw.
  void (*softmax_gradient)(const ScoreArgs&, void* row, void* d_row, int64_t low, int64_t high, const uint8_t* visible,
                           const void* bias, double lse, double delta);
};

struct Kernels {
  const char* instruction_set;
  ElementKernels float32, float64, bfloat16, float16;
  AccKernels acc32, acc64;
  // attend_run over int8 rows followed by their scales, for float32 queries.
  decltype(ElementKernels::attend_run) attend_codes;
  // gemv of float32 elements for 5 and more vectors; null: the instructions are missing. Any split of the rows gives
  // the same bits.
  decltype(ElementKernels::gemv) some_vectors;
};

}  // namespace easydel::operations::kernels
