// Granite 3 MoE: Granite with a router and experts, which files hold stacked.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/moe/moe_decoder.h"
#include "easydel/models/granitemoe/config.h"

namespace easydel {

class GraniteMoeDecoderLayer : public MoeDecoderLayer<Attention, AttentionSpec> {
 public:
  GraniteMoeDecoderLayer(const GraniteMoeConfig& config, int64_t layer_idx);
};

class GraniteMoeModel : public DecoderModel<GraniteMoeConfig, GraniteMoeDecoderLayer>,
                        public Pretrained<GraniteMoeModel> {
 public:
  explicit GraniteMoeModel(const GraniteMoeConfig& config);
};

class GraniteMoeForCausalLM : public ForCausalLM<GraniteMoeModel>, public Pretrained<GraniteMoeForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;

 protected:
  LogitOptions logit_options() const override;
};

}  // namespace easydel
