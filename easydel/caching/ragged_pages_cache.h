// A paged cache: sequences allocate pages as they grow and free them when they end.
#pragma once

#include <map>

#include "easydel/caching/cache.h"

namespace easydel {

struct RaggedPagesMetadata : CacheMetadata {
  int64_t page_size = 0;  // tokens
  int64_t num_pages = 0;
  int64_t max_model_length = 0;  // of one sequence
  std::vector<LayerKeys> layers;
  DType dtype = float32;
  at::Device device = at::kCPU;
  std::shared_ptr<const Parallel> parallel = {};  // slots are sharded over its sequence axes

  int64_t page_bytes() const;  // of one page in all layers
};

// Assigns the tokens of a call, concatenated in one row [1, T], to sequences: some process their prompt or a chunk of
// it, others their next token.
struct RaggedBatch : CacheMetadata {
  struct Part {
    int64_t sequence = 0;
    int64_t tokens = 0;
    // A caller that manages the pages by itself, as the engine does, gives those of the sequence, with room for the new
    // tokens, and how many tokens are in them already. Then the cache does not know the sequence.
    std::vector<int32_t> pages = {};
    int64_t before = 0;
  };
  std::vector<Part> parts;

  int64_t tokens() const;
  at::Tensor last_tokens() const;  // [parts] where each part ends in the row, for logits
};

// The next token of each of Q sequences, described on the device: what a captured step reads. The caller manages the
// pages. Rows that only fill the batch up have a negative slot and the length 0.
struct DecodeBatch : CacheMetadata {
  at::Tensor slots;        // [Q] int64: page * page_size + offset
  at::Tensor table;        // [Q, M] int32: the pages of each sequence
  at::Tensor lengths;      // [Q] int32, with the new token
  int64_t max_length = 0;  // of the longest
};

class RaggedPagesCache : public Cache {
 public:
  explicit RaggedPagesCache(RaggedPagesMetadata metadata);

  int64_t add_sequence();                // its id; it has no tokens yet
  void free_sequence(int64_t sequence);  // frees its pages
  int64_t sequence_length(int64_t sequence) const;
  int64_t free_pages() const { return static_cast<int64_t>(free_.size()); }
  int64_t pages_needed(int64_t sequence, int64_t tokens) const;  // for this many more tokens
  const RaggedPagesMetadata& metadata() const { return metadata_; }
  // Whether it is whole and on a GPU: then steps may be described by a DecodeBatch, where the kernels read its type.
  bool uses_device_kernels() const;

  int64_t length() const override { return 0; }
  int64_t max_length() const override { return metadata_.max_model_length; }
  bool is_ragged() const override { return true; }
  at::Tensor positions(int64_t batch, int64_t tokens, const CacheMetadata* step, at::Device device) const override;
  void begin(int64_t batch, int64_t tokens, const CacheMetadata* step) override;
  bool take_padding(const at::Tensor&) override { return false; }
  operations::AttentionOutput attend(int64_t layer, const at::Tensor& q_BTNH, const at::Tensor& k_BTKH,
                                     const at::Tensor& v_BTKH, const operations::AttentionOptions& options) override;
  std::optional<CacheSlot> slot_of_token(int64_t layer, const operations::AttentionOptions& options) override;
  void end() override;
  void reorder(const at::Tensor& rows) override;  // NotSupportedError: beam search uses a dense cache

 private:
  struct Sequence {
    int64_t length = 0;
    std::vector<int32_t> pages;
  };
  struct Layer {
    at::Tensor k, v;         // [pages, K, page_size, H]
    bool is_latent = false;  // v is a view of k
    int64_t chunk = 0;       // as LayerKeys has it
  };
  struct StepPart {  // of the step: the position of its tokens in the row, and the previous length of its sequence
    int64_t sequence, row, tokens, before;
    std::vector<int32_t> pages;
    bool is_managed;  // by the caller
  };
  int64_t length_before(const RaggedBatch::Part& part) const;
  operations::KeySpan span_of(const StepPart& part, int64_t token, int64_t window, int64_t chunk) const;
  const RaggedBatch& batch_of(const CacheMetadata* step, int64_t tokens) const;
  Sequence& find(int64_t sequence);
  const Sequence& find(int64_t sequence) const;
  void prepare_device_step();
  std::optional<at::Tensor> attend_on_device(const Layer& layer, const at::Tensor& q_TNH, const at::Tensor& k_TKH,
                                             const at::Tensor& v_TKV, const operations::AttentionOptions& options);
  void check(const RaggedBatch::Part& part, const std::vector<StepPart>& others) const;
  void store(Layer& layer, const at::Tensor& k_TKH, const at::Tensor& v_TKH) const;
  at::Tensor attend_to_sequence(const Layer& layer, const StepPart& part, const at::Tensor& q_TNH,
                                const operations::AttentionOptions& options) const;

  RaggedPagesMetadata metadata_;
  SlotPart part_;
  std::vector<Layer> layers_;
  std::vector<int32_t> free_;
  std::map<int64_t, Sequence> sequences_;
  int64_t next_sequence_ = 0;
  std::vector<StepPart> step_;
  // The step on a GPU: sequences with one new token come first, then `rest` tokens of the others.
  struct DeviceStep {
    DecodeBatch decode;
    int64_t decoded = 0, rest = 0;
    at::Tensor table, cu_q, cu_k;  // of the others
    int64_t max_q = 0, max_k = 0, total_k = 0;
    bool fresh = true;
  };
  std::optional<DeviceStep> device_step_;
  at::Tensor step_tokens_, step_places_;  // which tokens are stored on this rank, and where: page * page_size + offset
};

}  // namespace easydel
