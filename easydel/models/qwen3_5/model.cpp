// The layer: models/qwen3_next/model.cpp.
#include "easydel/models/qwen3_5/model.h"

namespace easydel {
namespace {

HybridDecoderLayer::Parts qwen3_5_parts(const Qwen3_5TextConfig& c, int64_t layer_idx) {
  HybridDecoderLayer::Parts parts{
      .mixer = gated_attention(c, layer_idx), .mlp = block_spec(c, layer_idx).mlp, .norm = zero_centered_norm(c)};
  if (c.linear.is_linear(layer_idx)) {
    GatedDeltaNetSpec net = delta_net(c, c.linear, layer_idx);
    net.by_key_head = false;
    parts.mixer = net;
  }
  return parts;
}

}  // namespace

Qwen3_5DecoderLayer::Qwen3_5DecoderLayer(const Qwen3_5TextConfig& c, int64_t layer_idx)
    : HybridDecoderLayer(qwen3_5_parts(c, layer_idx)) {}

}  // namespace easydel
