// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/falcon/model.h"

#include <ATen/ATen.h>

#include <cmath>

namespace easydel {
namespace {

NormSpec falcon_norm(const FalconConfig& c) { return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps}; }

// They were trained in bf16, and are added to the scores before these are divided by the root of the head size.
std::vector<double> falcon_slopes(const FalconConfig& c) {
  std::vector<double> slopes = alibi_slopes(c.num_attention_heads);
  for (double& slope : slopes)
    slope =
        static_cast<double>(at::BFloat16(static_cast<float>(slope))) / std::sqrt(static_cast<double>(c.head_size()));
  return slopes;
}

BlockSpec falcon_block(const FalconConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = falcon_norm(c);
  spec.parallel = c.parallel_attn;
  spec.dropout = c.hidden_dropout;
  spec.attention_out_dropout = c.attention_dropout;
  spec.dropout_of_sum = true;
  if (c.parallel_attn) spec.before_mlp = "";
  if (c.has_two_norms()) {
    spec.before_attention = "ln_attn";
    spec.before_mlp = "ln_mlp";
  }
  spec.attention_name = "self_attention";
  spec.attention.fused_qkv = true;
  spec.attention.qkv_by_head = c.new_decoder_architecture || !c.multi_query;
  spec.attention.qkv_name = "query_key_value";
  spec.attention.out_name = "dense";
  if (c.alibi) {
    spec.attention.rope.reset();
    spec.attention.alibi = falcon_slopes(c);
  }
  spec.mlp.gated = false;
  spec.mlp.up_name = "dense_h_to_4h";
  spec.mlp.down_name = "dense_4h_to_h";
  return spec;
}

}  // namespace

FalconDecoderLayer::FalconDecoderLayer(const FalconConfig& c, int64_t layer_idx)
    : DecoderBlock(falcon_block(c, layer_idx)) {}

FalconModel::FalconModel(const FalconConfig& c)
    : DecoderModel(
          c, {.norm = falcon_norm(c), .embeddings_name = "word_embeddings", .norm_name = "ln_f", .layers_name = "h"}) {}

}  // namespace easydel
