// Llama 4's text model: chunks, layers without rotary embeddings, and experts beside one that all tokens share.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/moe/moe_decoder.h"
#include "easydel/models/llama4/config.h"

namespace easydel {

class Llama4TextDecoderLayer : public MoeDecoderLayer<Attention, AttentionSpec> {
 public:
  Llama4TextDecoderLayer(const Llama4TextConfig& config, int64_t layer_idx);
};

class Llama4TextModel : public DecoderModel<Llama4TextConfig, Llama4TextDecoderLayer>,
                        public Pretrained<Llama4TextModel> {
 public:
  using DecoderModel::DecoderModel;
};

class Llama4ForCausalLM : public ForCausalLM<Llama4TextModel>, public Pretrained<Llama4ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

}  // namespace easydel
