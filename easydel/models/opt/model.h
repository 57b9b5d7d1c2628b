// OPT: learned positions, a layer of its own, and in the smaller form narrow embeddings.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/opt/config.h"

namespace easydel {

class OPTDecoderLayer : public DecoderLayer {
 public:
  OPTDecoderLayer(const OPTConfig& config, int64_t layer_idx);
  LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;

 private:
  int64_t layer_idx_;
  double dropout_;
  bool norm_before_;
  const operations::Activation& act_;
  const Attention& self_attn_;
  const Norm& self_attn_layer_norm_;
  const Linear &fc1_, &fc2_;
  const Norm& final_layer_norm_;
};

// Everything but the heads; files have it under "decoder".
class OPTDecoder : public Module {
 public:
  explicit OPTDecoder(const OPTConfig& config);

  const Embedding &embed_tokens, &embed_positions;
  const Linear *project_out = nullptr, *project_in = nullptr;
  const Norm* final_layer_norm = nullptr;
  ModuleList<OPTDecoderLayer>& layers;
};

class OPTModel : public BaseModule, public Pretrained<OPTModel> {
 public:
  using ConfigType = OPTConfig;
  explicit OPTModel(const OPTConfig& config) : BaseModule(config), decoder_(add<OPTDecoder>("decoder", config)) {}
  ModelOutput forward(const PreparedInputs& inputs) const override;
  const Embedding& embeddings() const { return decoder_.embed_tokens; }

 private:
  const OPTDecoder& decoder_;
};

class OPTForCausalLM : public ForCausalLM<OPTModel>, public Pretrained<OPTForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class OPTForSequenceClassification : public ForSequenceClassification<OPTModel>,
                                     public Pretrained<OPTForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
