// The context of one forward pass, passed to all layers.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "easydel/caching/cache.h"
#include "easydel/layers/batch_part.h"
#include "easydel/layers/module.h"
#include "easydel/operations/attention/attention.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/rope.h"

namespace easydel {

struct ForwardContext {
  at::Tensor positions;                     // [B, T]
  std::vector<operations::RopeTable> rope;  // one for each type of layer; empty without rotary embeddings
  MaskInfo mask;                            // of the call; layers call windowed_mask
  operations::AttentionOptions attention;   // mechanism, block sizes, dtype: common to all layers
  operations::CheckpointPolicy checkpoint;
  Cache* cache = nullptr;
  std::optional<RandomKey> dropout_key;  // nothing is dropped without one
  at::Tensor encoder_hidden;             // [B, S, D] that cross attention reads; undefined: no encoder
  MaskInfo cross_mask;                   // from this call's tokens to the encoder's
  BatchPart encoder_part = {};           // of encoder_hidden on a mesh
  at::Tensor position_bias;              // added to the scores of all layers, broadcasts to [B, N, T, S]
  BatchPart part = {};                   // on a mesh; the mask is of the whole sequence, positions are of the part
  bool fused_decode = true;              // one new token may take a layer in one operation, where that has the layer
  bool output_attentions = false;
  bool output_hidden_states = false;
  bool output_router_logits = false;

  // Shared by the layers with this window, so that its matrix is computed once. 0: no window.
  const MaskInfo& windowed_mask(int64_t window) const;
  // The same with attention within chunks of this many tokens, counted from a row's first token or a document's.
  // Without a cache, whose layers know their chunks.
  const MaskInfo& chunked_mask(int64_t chunk) const;
  // Dropout with a key that depends only on the position; x unchanged when p is 0 or there is no key.
  at::Tensor dropout(const at::Tensor& x, double p, std::string_view place, int64_t layer) const;

 private:
  mutable std::vector<std::shared_ptr<MaskInfo>> windowed_;
  mutable std::vector<std::pair<int64_t, std::shared_ptr<MaskInfo>>> chunked_;
};

// Dropout of [B, T, D] by the position in the full batch: the same on any mesh.
at::Tensor drop(const at::Tensor& x, double p, RandomKey key, const BatchPart& part);

// The result of a layer; all but the first only if requested.
struct LayerOutput {
  at::Tensor hidden;             // [B, T, D]
  at::Tensor attention_weights;  // [B, N, T, S]
  at::Tensor cross_weights;      // [B, N, T, S] over an encoder's tokens
  at::Tensor router_logits;      // [B * T, E]
};

class DecoderLayer : public Module {
 public:
  virtual LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const = 0;
};

struct StackOutput {
  at::Tensor hidden;                      // after the last layer
  std::vector<at::Tensor> hidden_states;  // before each layer
  std::vector<at::Tensor> attentions, cross_attentions;
  std::vector<at::Tensor> router_logits;
};

// Runs the layers in order. Backward recomputes according to the context's policy, so the layers must live until then;
// the context is kept alive.
StackOutput run_layers(const std::vector<const DecoderLayer*>& layers, at::Tensor x_BTD,
                       const std::shared_ptr<const ForwardContext>& ctx);

}  // namespace easydel
