// One new token through a layer of attention and a gated MLP on the CPU, in one parallel region. If each operation
// takes microseconds, separate calls cost as much as their arithmetic. int4 weights use x rounded to int8, with one
// scale for each of their groups; all others use it unchanged.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "easydel/operations/activation.h"
#include "easydel/operations/attention/cached.h"
#include "easydel/operations/quantized/packed_product.h"
#include "easydel/operations/rope.h"

namespace easydel::operations {

// weight x + bias, of packed or of dense float32 rows.
struct DecodeMap {
  const PackedCodes* packed = nullptr;
  const float* dense = nullptr;  // [rows, width]
  const float* bias = nullptr;   // [rows] or null
  int64_t rows = 0, width = 0;
};

struct DecodeNorm {
  const float* weight = nullptr;  // of an RMS norm
  double eps = 1e-6;
};

struct DecodeLayer {
  DecodeNorm before_attention, before_mlp;
  DecodeMap q, k, v, out, gate, up, down;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  double scale = 1.0, softcap = 0.0;
  const RopeTable* rope = nullptr;  // float32 [1, 1, rotated / 2]; null: nothing is rotated
  RopeStyle rope_style = RopeStyle::Half;
  KeyBlocks keys;  // float32; the new key and value are written into them
  KeySpan span;    // with the new token as its last slot
  const Activation* act = nullptr;
};

// Why decode_layer cannot take this layer, or null: maps of one x must be packed in one way, heads must fit the
// kernels, and so on.
const char* decode_obstacle(const DecodeLayer& layer);

// x float32 [1, 1, hidden]. Returns the residual stream after the layer.
at::Tensor decode_layer(const at::Tensor& x, const DecodeLayer& layer);

}  // namespace easydel::operations
