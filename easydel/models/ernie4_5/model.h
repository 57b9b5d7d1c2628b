// ERNIE 4.5 dense: Llama with interleaved rotary embeddings.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/ernie4_5/config.h"

namespace easydel {

class Ernie4_5DecoderLayer : public DecoderBlock {
 public:
  Ernie4_5DecoderLayer(const Ernie4_5Config& config, int64_t layer_idx);
};

class Ernie4_5Model : public DecoderModel<Ernie4_5Config, Ernie4_5DecoderLayer>, public Pretrained<Ernie4_5Model> {
 public:
  using DecoderModel::DecoderModel;
};

class Ernie4_5ForCausalLM : public ForCausalLM<Ernie4_5Model>, public Pretrained<Ernie4_5ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

}  // namespace easydel
