// The text model of Gemma 3: Gemma 2 with normed queries and keys, without soft caps on scores.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/gemma3/config.h"

namespace easydel {

class Gemma3DecoderLayer : public DecoderBlock {
 public:
  Gemma3DecoderLayer(const Gemma3TextConfig& config, int64_t layer_idx);
  // With a matrix for a mask, as images need it, the window hides what lies behind it, and nothing ahead.
  LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;

 private:
  int64_t window_;
};

class Gemma3TextModel : public DecoderModel<Gemma3TextConfig, Gemma3DecoderLayer>, public Pretrained<Gemma3TextModel> {
 public:
  explicit Gemma3TextModel(const Gemma3TextConfig& config);

 protected:
  std::vector<RopeTableSpec> rope_tables() const override;
};

class Gemma3ForCausalLM : public ForCausalLM<Gemma3TextModel>, public Pretrained<Gemma3ForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;

 protected:
  LogitOptions logit_options() const override;
};

class Gemma3TextForSequenceClassification : public ForSequenceClassification<Gemma3TextModel>,
                                            public Pretrained<Gemma3TextForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
