// OLMoE: norms over all queries and all keys, and a router with experts in every layer.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/moe/moe_decoder.h"
#include "easydel/models/olmoe/config.h"

namespace easydel {

class OlmoeDecoderLayer : public MoeDecoderLayer<Attention, AttentionSpec> {
 public:
  OlmoeDecoderLayer(const OlmoeConfig& config, int64_t layer_idx);
};

class OlmoeModel : public DecoderModel<OlmoeConfig, OlmoeDecoderLayer>, public Pretrained<OlmoeModel> {
 public:
  using DecoderModel::DecoderModel;
};

class OlmoeForCausalLM : public ForCausalLM<OlmoeModel>, public Pretrained<OlmoeForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

}  // namespace easydel
