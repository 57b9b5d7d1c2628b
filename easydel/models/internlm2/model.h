// InternLM2: Llama in another order, with the queries of a group beside their key and value.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/internlm2/config.h"

namespace easydel {

class InternLM2DecoderLayer : public DecoderBlock {
 public:
  InternLM2DecoderLayer(const InternLM2Config& config, int64_t layer_idx);
};

class InternLM2Model : public DecoderModel<InternLM2Config, InternLM2DecoderLayer>, public Pretrained<InternLM2Model> {
 public:
  explicit InternLM2Model(const InternLM2Config& config);
  std::string torch_path(const std::string& path) const override;
};

class InternLM2ForCausalLM : public ForCausalLM<InternLM2Model>, public Pretrained<InternLM2ForCausalLM> {
 public:
  explicit InternLM2ForCausalLM(const InternLM2Config& config);
};

}  // namespace easydel
