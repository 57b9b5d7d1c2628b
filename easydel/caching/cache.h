// What a model asks of a cache, whatever keeps the keys and values: a dense block for each row, or pages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
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

// What a layer keeps of each token, on this rank.
struct LayerKeys {
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t window = 0;  // 0: the layer looks back over everything
  // Above 0: values are the first so many numbers of the keys, as latent attention has them, and are kept once.
  int64_t value_dim = 0;

  // Whether values lie inside of the keys. Rows of codes cannot be cut that way: NotSupportedError.
  bool is_latent(DType stored) const;
  int64_t numbers_per_token(DType stored) const {
    return kv_heads * operations::row_width(head_dim, stored) * (value_dim > 0 ? 1 : 2);
  }
};

// The plan of a cache; also what a call says about its tokens.
class CacheMetadata {
 public:
  virtual ~CacheMetadata() = default;
};

// Where the one new token of the one row of a step goes, and what it sees.
struct CacheSlot {
  operations::KeyBlocks keys;
  operations::KeySpan span;
};

// One call of a model is a step: begin, attend in every layer, end. A step that fails does not count.
// Gradients do not flow into a cache.
class Cache {
 public:
  virtual ~Cache() = default;

  // Tokens that every row has seen: the slot of the next one. 0 where rows differ.
  virtual int64_t length() const = 0;
  // Whether the rows of a call are one after the other in one row of tokens, with `CacheMetadata` to tell them apart.
  virtual bool is_ragged() const { return false; }
  // [B, T] of the step's tokens, where nobody gave them.
  virtual at::Tensor positions(int64_t batch, int64_t tokens, const CacheMetadata* step, at::Device device) const = 0;

  // B and T on this rank. ShapeError when the tokens do not fit into what is left.
  virtual void begin(int64_t batch, int64_t tokens, const CacheMetadata* step) = 0;
  // Where rows start: keys before are padding. Takes a mask [B, length + T], zero: padding, when that is all it says.
  virtual bool take_padding(const at::Tensor& padding_mask) = 0;
  // Keeps the keys and values [B, T, K, H] of a layer and looks from the queries [B, T, N, H] at all that they may see.
  virtual operations::AttentionOutput attend(int64_t layer, const at::Tensor& q_BTNH, const at::Tensor& k_BTKH,
                                             const at::Tensor& v_BTKH, const operations::AttentionOptions& options) = 0;
  // For who writes the key and value of a step's only token, and looks at all that it may see, by itself: in float32 on
  // the CPU. None: call attend.
  virtual std::optional<CacheSlot> slot_of_token(int64_t, const operations::AttentionOptions&) { return std::nullopt; }
  virtual void end() = 0;

  // Row i becomes what row rows[i] was: beams that live on.
  virtual void reorder(const at::Tensor& rows) = 0;

  // Rotary tables of all positions that the cache has room for, [1, positions, R / 2], made by the first step.
  std::vector<operations::RopeTable> rope;
  virtual int64_t max_length() const = 0;
};

// The slots of a sequence that a rank keeps where several share it: every sp-th. Local slots count these alone.
class SlotPart {
 public:
  SlotPart() = default;
  explicit SlotPart(std::shared_ptr<const Parallel> parallel);  // null: all slots

  int64_t parts() const { return parts_; }
  // How many of the first `slots` are kept here; the local slot of the first one at or behind it.
  int64_t local(int64_t slots) const { return slots <= rank_ ? 0 : (slots - rank_ + parts_ - 1) / parts_; }
  int64_t slot(int64_t local) const { return local * parts_ + rank_; }
  // The members' results become that over all slots: out [B, T, N, V] and lse [B, N, T], float32 or better.
  at::Tensor merge(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& sinks) const;

 private:
  std::shared_ptr<const Parallel> parallel_;
  int64_t parts_ = 1, rank_ = 0;
};

}  // namespace easydel
