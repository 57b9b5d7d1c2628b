// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/gpt_neox/model.h"

namespace easydel {
namespace {

NormSpec neox_norm(const GPTNeoXConfig& c) { return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps}; }

BlockSpec neox_block(const GPTNeoXConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = neox_norm(c);
  spec.dropout = c.hidden_dropout;
  spec.parallel = c.use_parallel_residual;
  spec.attention_name = "attention";
  spec.attention.fused_qkv = true;
  spec.attention.qkv_by_head = true;
  spec.attention.qkv_name = "query_key_value";
  spec.attention.out_name = "dense";
  spec.mlp.gated = false;
  spec.mlp.bias = true;
  spec.mlp.up_name = "dense_h_to_4h";
  spec.mlp.down_name = "dense_4h_to_h";
  return spec;
}

}  // namespace

GPTNeoXLayer::GPTNeoXLayer(const GPTNeoXConfig& c, int64_t layer_idx) : DecoderBlock(neox_block(c, layer_idx)) {}

GPTNeoXModel::GPTNeoXModel(const GPTNeoXConfig& c)
    : DecoderModel(c, {.norm = neox_norm(c),
                       .embedding_dropout = c.hidden_dropout,
                       .embeddings_name = "embed_in",
                       .norm_name = "final_layer_norm"}) {}

GPTNeoXForCausalLM::GPTNeoXForCausalLM(const GPTNeoXConfig& c) : ForCausalLM(c, "gpt_neox") {
  if (c.tie_word_embeddings) return;
  Parameter& head = *lm_head().weight();  // which files call embed_out
  head.file_layout = [shape = head.shape](const std::string&) -> FileLayout {
    return {{"embed_out.weight", {0, 0}, shape, shape}};
  };
}

}  // namespace easydel
