// DeepSeek's first models: Llama's attention, and experts of which some are shared by all tokens.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/moe/moe_decoder.h"
#include "easydel/models/deepseek/config.h"

namespace easydel {

class DeepseekDecoderLayer : public MoeDecoderLayer<Attention, AttentionSpec> {
 public:
  DeepseekDecoderLayer(const DeepseekConfig& config, int64_t layer_idx);
};

class DeepseekModel : public DecoderModel<DeepseekConfig, DeepseekDecoderLayer>, public Pretrained<DeepseekModel> {
 public:
  using DecoderModel::DecoderModel;
  std::string torch_path(const std::string& path) const override;
};

class DeepseekForCausalLM : public ForCausalLM<DeepseekModel>, public Pretrained<DeepseekForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

}  // namespace easydel
