// ERNIE 4.5 MoE: interleaved rotary embeddings, and experts with a bias that evens them out.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/moe/moe_decoder.h"
#include "easydel/models/ernie4_5_moe/config.h"

namespace easydel {

class Ernie4_5_MoeDecoderLayer : public MoeDecoderLayer<Attention, AttentionSpec> {
 public:
  Ernie4_5_MoeDecoderLayer(const Ernie4_5_MoeConfig& config, int64_t layer_idx);
};

class Ernie4_5_MoeModel : public DecoderModel<Ernie4_5_MoeConfig, Ernie4_5_MoeDecoderLayer>,
                          public Pretrained<Ernie4_5_MoeModel> {
 public:
  using DecoderModel::DecoderModel;
};

class Ernie4_5_MoeForCausalLM : public ForCausalLM<Ernie4_5_MoeModel>, public Pretrained<Ernie4_5_MoeForCausalLM> {
 public:
  explicit Ernie4_5_MoeForCausalLM(const Ernie4_5_MoeConfig& config)
      : ForCausalLM(config, "model", /*head_bias=*/config.use_bias) {}
};

}  // namespace easydel
