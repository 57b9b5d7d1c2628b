// What encoders have in common: their layer, and running a stack of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "easydel/infra/base_module.h"
#include "easydel/infra/encoder/encoder_config.h"
#include "easydel/layers/decoder_block.h"
#include "easydel/layers/embedding.h"
#include "easydel/layers/forward_context.h"

namespace easydel {

// A layer as CLIP has it, in the sizes of the config: layer_norm1, self_attn, layer_norm2, mlp.fc1, mlp.fc2.
BlockSpec encoder_block_spec(const EncoderConfig& config, int64_t layer_idx);

class EncoderLayer : public DecoderBlock {
 public:
  EncoderLayer(const EncoderConfig& config, int64_t layer_idx) : DecoderBlock(encoder_block_spec(config, layer_idx)) {}
};

// encoder.layers, as CLIP and SigLIP have them.
class Encoder : public Module {
 public:
  explicit Encoder(const EncoderConfig& config);
  std::vector<const DecoderLayer*> layers() const { return {layers_.begin(), layers_.end()}; }

 private:
  ModuleList<EncoderLayer>& layers_;
};

// The tokens and their learned positions: token_embedding, position_embedding.
class TextEmbeddings : public Module {
 public:
  explicit TextEmbeddings(const EncoderConfig& config);
  // ShapeError on a text that is longer than max_position_embeddings.
  at::Tensor operator()(const PreparedInputs& inputs) const;

 private:
  int64_t longest_;
  const Embedding &tokens_, &positions_;
};

// Runs the layers. last_hidden_state is what the last one gives; hidden_states, if requested, are what goes
// into each, and that.
ModelOutput run_encoder(const BaseModule& module, const PreparedInputs& prepared, at::Tensor embeddings,
                        const std::vector<const DecoderLayer*>& layers);

// The inputs of a vision tower from a call: every patch attends to every other.
PreparedInputs image_inputs(const PreparedInputs& prepared);

// The rows [B] of hidden states [B, T, D], one token of each, as a sum over the ranks that share the sequence.
// `map` is applied to a rank's own term, before the sum: a projection's weight then has its gradient once.
at::Tensor pick_tokens(const BaseModule& module, const at::Tensor& hidden, const PreparedInputs& inputs,
                       const Linear* map = nullptr);

// Files call these parameters by other names: every `first` in a path is a `second` there.
void rename_in_files(Module& module, const std::vector<std::pair<std::string, std::string>>& table);

}  // namespace easydel
