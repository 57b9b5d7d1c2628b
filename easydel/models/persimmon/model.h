// Persimmon: q, k and v of each head together in one matrix, layer norms, a plain MLP.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/persimmon/config.h"

namespace easydel {

class PersimmonDecoderLayer : public DecoderBlock {
 public:
  PersimmonDecoderLayer(const PersimmonConfig& config, int64_t layer_idx);
};

class PersimmonModel : public DecoderModel<PersimmonConfig, PersimmonDecoderLayer>, public Pretrained<PersimmonModel> {
 public:
  explicit PersimmonModel(const PersimmonConfig& config);
};

class PersimmonForCausalLM : public ForCausalLM<PersimmonModel>, public Pretrained<PersimmonForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class PersimmonForSequenceClassification : public ForSequenceClassification<PersimmonModel>,
                                           public Pretrained<PersimmonForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
