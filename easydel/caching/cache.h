// The interface of key/value caches: a dense block for each row, or pages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "easydel/core/dtype.h"
#include "easydel/operations/attention/attention.h"
#include "easydel/operations/attention/cached.h"
#include "easydel/operations/quantized/coded_rows.h"
#include "easydel/operations/rope.h"
#include "easydel/sharding/parallel.h"

// Letters: B batch, T new tokens, N query heads, K key/value heads, H head size.
namespace easydel {

// What a layer stores of each token, on this rank.
struct LayerKeys {
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t window = 0;  // 0: no window
  // Above 0: values are this many leading features of the keys, as in latent attention, and are stored once.
  int64_t value_dim = 0;
  int64_t chunk = 0;  // attention within chunks of this many tokens, counted from the start of the row; 0: off

  // Whether values are a part of the keys. int8 codes cannot be sliced that way: NotSupportedError.
  bool is_latent(DType stored) const;
  int64_t numbers_per_token(DType stored) const {
    return kv_heads * operations::row_width(head_dim, stored) * (value_dim > 0 ? 1 : 2);
  }
};

// The configuration of a cache; also per-call metadata about its tokens.
class CacheMetadata {
 public:
  virtual ~CacheMetadata() = default;
};

// The slot of a step's only token in its only row, and the keys that it attends to.
struct CacheSlot {
  operations::KeyBlocks keys;
  operations::KeySpan span;
};

// One forward pass is a step: begin, attend in every layer, end. A failed step does not count. Not differentiable.
class Cache {
 public:
  virtual ~Cache() = default;

  // The number of tokens of every row: the slot of the next one. 0 if rows differ.
  virtual int64_t length() const = 0;
  // Whether the sequences of a call are concatenated in one row of tokens, described by `CacheMetadata`.
  virtual bool is_ragged() const { return false; }
  // [B, T] of the step's tokens, if the caller did not pass them.
  virtual at::Tensor positions(int64_t batch, int64_t tokens, const CacheMetadata* step, at::Device device) const = 0;

  // B and T on this rank. ShapeError when there is not enough room left.
  virtual void begin(int64_t batch, int64_t tokens, const CacheMetadata* step) = 0;
  // Sets where rows start: earlier keys are padding. Accepts a mask [B, length + T], zero: padding, if it is only left
  // padding.
  virtual bool take_padding(const at::Tensor& padding_mask) = 0;
  // Stores the keys and values [B, T, K, H] of a layer and attends from the queries [B, T, N, H] to all visible ones.
  virtual operations::AttentionOutput attend(int64_t layer, const at::Tensor& q_BTNH, const at::Tensor& k_BTKH,
                                             const at::Tensor& v_BTKH, const operations::AttentionOptions& options) = 0;
  // For callers that store the key and value of a step's only token and attend by themselves: in float32 on the CPU.
  // None: call attend.
  virtual std::optional<CacheSlot> slot_of_token(int64_t, const operations::AttentionOptions&) { return std::nullopt; }
  virtual void end() = 0;

  // Row i becomes row rows[i], for beam search.
  virtual void reorder(const at::Tensor& rows) = 0;

  // What is stored once for a row and not for each token, by layer: keys and values of an encoder's output, the states
  // of recurrent layers. Each tensor has its rows first. Whoever writes them says what they are.
  std::map<int64_t, std::vector<at::Tensor>> row_states;

  // Rotary tables of all positions of the cache, [1, positions, R / 2], computed by the first step.
  std::vector<operations::RopeTable> rope;
  virtual int64_t max_length() const = 0;
};

// The slots of a sequence that a rank stores if several share it: every sp-th. Local slots count only these.
class SlotPart {
 public:
  SlotPart() = default;
  explicit SlotPart(std::shared_ptr<const Parallel> parallel);  // null: all slots

  int64_t parts() const { return parts_; }
  // How many of the first `slots` are stored here; the local slot of the first one at or after it.
  int64_t local(int64_t slots) const { return slots <= rank_ ? 0 : (slots - rank_ + parts_ - 1) / parts_; }
  int64_t slot(int64_t local) const { return local * parts_ + rank_; }
  // Merges the members' results over all slots: out [B, T, N, V] and lse [B, N, T], float32 or better.
  at::Tensor merge(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& sinks) const;

 private:
  std::shared_ptr<const Parallel> parallel_;
  int64_t parts_ = 1, rank_ = 0;
};

}  // namespace easydel
