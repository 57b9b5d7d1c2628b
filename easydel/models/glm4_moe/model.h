// GLM-4.5 and GLM-4.6: grouped attention, an MLP in the first layers and experts in the others.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/moe/moe_decoder.h"
#include "easydel/models/glm4_moe/config.h"

namespace easydel {

class Glm4MoeDecoderLayer : public MoeDecoderLayer<Attention, AttentionSpec> {
 public:
  Glm4MoeDecoderLayer(const Glm4MoeConfig& config, int64_t layer_idx);
};

class Glm4MoeModel : public DecoderModel<Glm4MoeConfig, Glm4MoeDecoderLayer>, public Pretrained<Glm4MoeModel> {
 public:
  using DecoderModel::DecoderModel;
};

class Glm4MoeForCausalLM : public ForCausalLM<Glm4MoeModel>, public Pretrained<Glm4MoeForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

}  // namespace easydel
