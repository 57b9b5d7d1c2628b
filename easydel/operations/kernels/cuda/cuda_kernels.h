// The GPU kernels of fused operations, on raw pointers: compiled by nvcc without torch's headers.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace easydel::operations::cuda_kernels {

enum class Element : uint8_t { Float32, Float16, BFloat16 };
using Stream = CUstream_st*;

struct RmsNorm {
  const void* x;       // [rows, width]
  const void* weight;  // [width] of the same type
  void* y;
  float* rstd;  // [rows] or null
  int64_t rows, width;
  float eps, offset;  // offset is added to the weight
  bool cast_first;    // round the normalized value before it is multiplied
};
void rms_norm(Element type, const RmsNorm& args, Stream stream);

// The gradients of x and of the factor, offset + weight; d_factor is scratch memory, for sums over some rows each.
struct RmsNormBackward {
  const void* x;       // [rows, width]
  const void* weight;  // [width] of the same type
  const void* d_y;
  const void* d_residual;  // added to d_x, or null
  const float* rstd;
  void* d_x;
  float* d_factor;      // [parts, width]
  float* d_factor_sum;  // [width]
  int64_t rows, width;
  float offset;
  int parts;
};
bool can_rms_norm_backward(Element type, int64_t width);
int rms_norm_parts(Element type, int64_t rows, int64_t width);
void rms_norm_backward(Element type, const RmsNormBackward& args, Stream stream);

// RMS norms of rows that a kernel reads, before all else it does with them.
struct RowNorm {
  const void* weight;  // [width] of x's type, or null: the rows are read as they are
  float eps, offset;
  bool cast_first;
};

// q and k in one launch. Strides count elements; heads of `head_size` are dense.
struct Rotary {
  struct Heads {
    const void* x;  // [batch, tokens, heads, head_size]
    void* y;        // dense
    int64_t batch_stride, token_stride, head_stride;
    int32_t heads;
    RowNorm norm;  // of each head
  };
  Heads q, k;
  int64_t batch, tokens;
  int32_t head_size, half;
  const float* cos;  // rows of `half`
  const float* sin;
  int64_t table_batch, table_token;
  bool interleaved, inverse;
};
void rotary(Element type, const Rotary& args, Stream stream);
bool can_norm_heads(Element type, const Rotary& args);

// y = act(gate) * up, rows of `width`.
struct Gate {
  const void* gate;
  const void* up;
  void* y;
  int64_t gate_row, up_row, rows, width;
  bool gelu;  // its tanh form; else silu
};
void gate(Element type, const Gate& args, Stream stream);

// The gradients of gate and up from d_y, whose rows are dense; both have rows d_row apart.
struct GateBackward {
  const void* gate;
  const void* up;
  const void* d_y;
  void* y;  // null, or where act(gate) * up is written again, dense; may be d_y
  void* d_gate;
  void* d_up;
  int64_t gate_row, up_row, d_row, rows, width;
  bool gelu;
};
void gate_backward(Element type, const GateBackward& args, Stream stream);

// Rows of logits, float32 and dense: their loss, and with `scale` their gradient, as kernels.h's cross_entropy.
struct CrossEntropy {
  float* logits;
  void* d_logits;  // the gradient in the type of the call, dense; null: it replaces the logits
  const int64_t* labels;
  const float* scale;  // of each row, or null: no gradient
  float* nll;
  float* lse;
  uint8_t* correct;
  int64_t rows, width, ignore_index;
  float label_smoothing, z_loss, logit_scale, logit_softcap;
};
void cross_entropy(Element d_type, const CrossEntropy& args, Stream stream);

// y[t] = bias + the sum over k of weight[k] x[t - (taps - 1) + k], of tokens with the same run as t, for each channel.
// The four channels that are loaded at once must be aligned.
struct CausalConv {
  const void* x;  // [batch, tokens, channels]: tokens x_token elements apart
  int64_t x_batch, x_token;
  const float* weight;  // [taps, channels]
  const float* bias;    // [channels] or null
  const int64_t* runs;  // [batch, tokens] or null: all see each other
  void* y;              // dense; in backward the gradient of x
  const void* d_y;      // in backward, dense
  float* d_weight;      // in backward [causal_conv_parts(), taps + 1, channels]: terms of the weight's, then the bias's
  int64_t batch, tokens, channels;
  int taps;
};
bool can_causal_conv(int64_t taps, int64_t channels);
int64_t causal_conv_parts(int64_t batch, int64_t tokens);
void causal_conv(Element type, const CausalConv& args, Stream stream);
void causal_conv_backward(Element type, const CausalConv& args, Stream stream);

// x *= factor, one number there; nothing is read or written if it is 1.
void scale(Element type, void* x, int64_t count, const float* factor, Stream stream);

// A step of AdamW, in place: moments, then param -= step * mu / (sqrt(nu) * nu_scale + eps) + decay * param.
struct Adamw {
  static constexpr int kMaxTensors = 64;
  void* param[kMaxTensors];
  const void* gradient[kMaxTensors];
  void* mu[kMaxTensors];
  void* nu[kMaxTensors];
  int64_t count[kMaxTensors];
  int first_block[kMaxTensors + 1];  // of each tensor, whose blocks have adamw_block() elements
  int tensors;
  float b1, one_minus_b1, b2, one_minus_b2, eps;
  float step, nu_scale, decay;
};
int64_t adamw_block(Element type);
void adamw(Element type, const Adamw& args, Stream stream);

// One new token of each row: stores its key and value in its slot of the cache, and attends over all visible slots. The
// slot is read on the device.
struct AttendToCache {
  const void* q;  // [batch, kv_heads * shared, head_size]
  const void* k;  // [batch, kv_heads, head_size], likewise v
  const void* v;
  int64_t q_batch, q_head, k_batch, k_head, v_batch, v_head;  // strides
  void* k_cache;                                              // [batch, kv_heads, capacity, head_size]
  void* v_cache;
  void* out;                       // [batch, kv_heads * shared, head_size]
  float* scratch;                  // scratch_floats() of them
  int32_t* arrivals;               // [batch, kv_heads * shared], zeros before and after
  const int64_t* slot;             // [1]
  const int64_t* starts;           // [batch] or null
  int64_t capacity, window, keys;  // keys: upper bound of the keys to visit; window 0: none
  int32_t batch, kv_heads, shared, head_size;
  // Set by plan_attend_to_cache: into how many parts the keys are split, how many query heads a block has, and how many
  // warps (0: any).
  int32_t splits, together, warps;
  float scale, softcap;
};
bool can_attend_to_cache(int64_t head_size);
void plan_attend_to_cache(Element type, AttendToCache& args);
int64_t scratch_floats(const AttendToCache& args);
void attend_to_cache(Element type, const AttendToCache& args, Stream stream);

// Normal numbers as core/random.h draws them, into a dense y: the part at `offsets` of a tensor of `shape`.
struct DrawNormal {
  static constexpr int kMaxDims = 4;
  void* y;
  int64_t count;
  int dims;  // at least 1
  int64_t sizes[kMaxDims], offsets[kMaxDims], shape[kMaxDims];
  uint64_t key;
  float mean, stddev;
};
void draw_normal(Element type, const DrawNormal& args, Stream stream);

}  // namespace easydel::operations::cuda_kernels
