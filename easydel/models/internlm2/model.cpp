// The layer: layers/decoder_block.cpp. The spec below is what this family changes of the one that
// models/llama/model.cpp shows.
#include "easydel/models/internlm2/model.h"

namespace easydel {
namespace {

BlockSpec internlm2_block(const InternLM2Config& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.attention_name = "attention";
  spec.mlp_name = "feed_forward";
  spec.before_attention = "attention_norm";
  spec.before_mlp = "ffn_norm";
  spec.attention.fused_qkv = spec.attention.qkv_by_head = true;
  spec.attention.qkv_name = "wqkv";
  spec.attention.out_name = "wo";
  spec.mlp.gate_name = "w1";
  spec.mlp.up_name = "w3";
  spec.mlp.down_name = "w2";
  return spec;
}

}  // namespace

InternLM2DecoderLayer::InternLM2DecoderLayer(const InternLM2Config& c, int64_t layer_idx)
    : DecoderBlock(internlm2_block(c, layer_idx)) {}

InternLM2Model::InternLM2Model(const InternLM2Config& c)
    : DecoderModel(c, {.norm = {.eps = c.norm_eps}, .embeddings_name = "tok_embeddings"}) {}

std::string InternLM2Model::torch_path(const std::string& path) const {
  return path == "lm_head.weight" ? "output.weight" : path;
}

InternLM2ForCausalLM::InternLM2ForCausalLM(const InternLM2Config& c) : ForCausalLM(c) {
  if (c.tie_word_embeddings) return;
  Parameter& head = *lm_head().weight();
  head.file_layout = [shape = head.shape](const std::string&) -> FileLayout {
    return {{"output.weight", {0, 0}, shape, shape}};
  };
}

}  // namespace easydel
