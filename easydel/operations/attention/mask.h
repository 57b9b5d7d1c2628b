// Attention masks as rules instead of a matrix: causal, a window, padding, packed segments.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "easydel/core/dtype.h"

namespace easydel {

class MaskMemory;

// Rows of tokens as documents that lie one after another: what kernels for sequences of many lengths take.
struct Documents {
  at::Tensor begins;    // [documents + 1] int32 on the device, in tokens of all rows; the last is their number
  int64_t longest = 0;  // tokens
  at::Tensor hidden;    // [B, T] bool on the device: padding, which forms documents of its own; undefined: none
};

// Letters: B batch, T queries, S keys. A key's slot is its index on the S axis; a query's slot is that of the key of
// the same token. All rules must hold at once. A query without visible keys gives zeros, and its gradients are zeros.
struct MaskInfo {
  bool causal = true;               // no key in a later slot
  int64_t sliding_window = 0;       // this many slots back, including its own; not causal: also ahead. 0: all
  at::Tensor padding_mask;          // [B, S] bool or integer, zero: this key is hidden; as a query it has no meaning
  at::Tensor q_segment_ids;         // [B, T] integer: a query attends only to its own segment; negative: padding
  at::Tensor kv_segment_ids;        // [B, S]; when absent, q_segment_ids (then T == S)
  std::optional<int64_t> q_offset;  // slot of the first query; default S - T: the queries are the newest tokens
  at::Tensor q_positions;           // [B, T] slot of every query, where rows differ; replaces q_offset
  at::Tensor explicit_mask;         // bool, broadcasts to [B, N, T, S]: for masks that the rules cannot express

  // Checked first by every mechanism. ShapeError names the mismatched tensor.
  void validate(int64_t batch, int64_t queries, int64_t keys) const;

  // Drops rules that hide nothing: a padding mask of ones, one segment. It reads the tensors (on CUDA it synchronizes),
  // so a model calls it once for all its layers.
  MaskInfo simplified() const;

  // The rules for queries [q_begin, q_begin + q_count) and keys [k_begin, k_begin + k_count) of a T x S problem.
  MaskInfo slice(int64_t queries, int64_t keys, int64_t q_begin, int64_t q_count, int64_t k_begin,
                 int64_t k_count) const;

  int64_t first_slot(int64_t queries, int64_t keys) const { return q_offset.value_or(keys - queries); }

  // Known without reading a tensor: every query attends to every key.
  bool sees_everything(int64_t queries, int64_t keys) const;
  // Known without reading a tensor: the square causal mask and nothing else, which fused kernels have built in.
  bool is_plain_causal(int64_t queries, int64_t keys) const;

  // The keys that some of these queries may attend to by the causal and window rules alone; all keys with q_positions.
  struct KeyRange {
    int64_t begin;
    int64_t end;
  };
  KeyRange key_range(int64_t queries, int64_t keys, int64_t q_begin, int64_t q_count) const;

  // [B or 1, 1 or N, T, S], true where a query attends to a key. Layers that share this MaskInfo (or copies) share the
  // matrix.
  at::Tensor to_bool(int64_t queries, int64_t keys, at::Device device) const;
  // The same as zeros and -inf.
  at::Tensor to_additive(int64_t queries, int64_t keys, at::Device device, DType dtype) const;
  // [B or 1, 1 or N, T, 1], true for a query without visible keys; undefined if every query attends to its own key.
  at::Tensor blind_queries(int64_t queries, int64_t keys, at::Device device) const;

  // Segments and padding of a batch whose queries are its keys, as documents; null if they are none: a document in
  // several pieces, or another rule that differs by row. Queries that are padding attend to nothing. It reads the
  // tensors; those on the CPU without waiting for a device.
  std::shared_ptr<const Documents> documents(int64_t batch, int64_t queries, int64_t keys, at::Device device) const;

  // Cached matrices; shared by copies, ignored once a field has changed.
  std::shared_ptr<MaskMemory> memory = make_memory();
  static std::shared_ptr<MaskMemory> make_memory();
};

}  // namespace easydel
