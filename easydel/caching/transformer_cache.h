// A dense cache: a block of memory for each row, allocated once and written in place.
#pragma once

#include <optional>

#include "easydel/caching/cache.h"

namespace easydel {

struct TransformerMetadata : CacheMetadata {
  int64_t batch_size = 0;  // rows on this rank
  int64_t max_length = 0;  // of the full sequence
  std::optional<int64_t> pad_token_id = {};
  std::vector<LayerKeys> layers;
  DType dtype = float32;  // int8: codes, with a scale for each token and head
  at::Device device = at::kCPU;
  std::shared_ptr<const Parallel> parallel = {};  // slots are sharded over its sequence axes

  double bytes() const;  // of the cache
};

// A layer with a window stores only that window. Rows have the same length; shorter ones start later.
class TransformerCache : public Cache {
 public:
  // starts [B]: the first slot of each row that is not padding; undefined: 0.
  explicit TransformerCache(TransformerMetadata metadata, const at::Tensor& starts = {});

  int64_t length() const override { return length_; }
  int64_t max_length() const override { return metadata_.max_length; }
  at::Tensor positions(int64_t batch, int64_t tokens, const CacheMetadata* step, at::Device device) const override;
  void begin(int64_t batch, int64_t tokens, const CacheMetadata* step) override;
  bool take_padding(const at::Tensor& padding_mask) override;
  operations::AttentionOutput attend(int64_t layer, const at::Tensor& q_BTNH, const at::Tensor& k_BTKH,
                                     const at::Tensor& v_BTKH, const operations::AttentionOptions& options) override;
  std::optional<CacheSlot> slot_of_token(int64_t layer, const operations::AttentionOptions& options) override;
  void end() override;
  void reorder(const at::Tensor& rows) override;

  const TransformerMetadata& metadata() const { return metadata_; }
  const at::Tensor& starts() const { return starts_; }
  bool knows_padding() const { return knows_padding_; }  // it has a mask, so that later steps need none
  void reset();                                          // no tokens, no starts; the memory stays
  void crop(
      int64_t length);  // drops later tokens; ConfigError if a layer with a window has already dropped needed keys

  // Steps of one token whose slot is read from the device, over the first `keys` slots, so that one captured graph
  // serves them all. Host and device count separately: whoever replays a graph calls count_tokens on the host.
  void begin_static(int64_t keys);
  bool is_static() const { return static_keys_ > 0; }
  void set_length(int64_t length);                          // on host and device
  void count_tokens(int64_t tokens) { length_ += tokens; }  // on the host only; replays count on the device

 private:
  struct Layer {
    at::Tensor k, v;  // [B, K, C, H], or rows of codes
    int64_t window = 0;
    bool is_latent = false;  // v is a view of k
    int64_t chunk = 0;       // as LayerKeys has it
    int64_t capacity() const { return k.size(2); }
  };
  // The keys that a step attends to, in memory order, and their local slots.
  struct Seen {
    at::Tensor k, v;             // [B, S, K, H]
    std::vector<int64_t> slots;  // [S] of the whole sequence
    bool in_order = true;        // each slot follows the one before it
  };
  void store(Layer& layer, const at::Tensor& k_BTKH, const at::Tensor& v_BTKH) const;
  Seen see(Layer& layer, const at::Tensor& k_BTKH, const at::Tensor& v_BTKH) const;
  MaskInfo mask_of(const Seen& seen, const MaskInfo& given, int64_t tokens, int64_t chunk) const;
  // Where slots are in the same chunk, [B or 1, 1, queries, keys].
  at::Tensor in_chunk(const at::Tensor& queries, const at::Tensor& keys, int64_t chunk, const MaskInfo& given) const;
  bool is_plain(const operations::AttentionOptions& options) const;
  operations::KeySpan span_of(int64_t row, int64_t window, int64_t chunk) const;  // of the next token
  at::Tensor attend_one(Layer& layer, const at::Tensor& q_BTNH, const operations::AttentionOptions& options) const;
  at::Tensor attend_static(Layer& layer, const at::Tensor& q_BTNH, const at::Tensor& k_BTKH, const at::Tensor& v_BTKH,
                           const operations::AttentionOptions& options);
  at::Tensor visible_static(const Layer& layer, int64_t keys, int64_t window);

  TransformerMetadata metadata_;
  SlotPart part_;
  std::vector<Layer> layers_;
  int64_t length_ = 0, tokens_ = 0;
  at::Tensor starts_;                 // [B] on the device; undefined: all 0
  std::vector<int64_t> host_starts_;  // the same
  bool knows_padding_ = false;
  int64_t static_keys_ = 0;
  at::Tensor slot_;      // [1] on the device, of the next token
  at::Tensor arrivals_;  // zeros, for the kernel of static steps
  struct StaticMask {
    int64_t capacity, keys, window, chunk;
    at::Tensor visible;
  };
  std::vector<StaticMask> static_masks_;  // of this step
};

}  // namespace easydel
