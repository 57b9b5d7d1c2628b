// Qwen3-Next: attention with gates in some layers and Gated DeltaNet in the others, and experts with a shared one.
#pragma once

#include <variant>

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/moe/moe.h"
#include "easydel/layers/recurrent/gated_delta_net.h"
#include "easydel/models/qwen3_next/config.h"

namespace easydel {

// Attention or Gated DeltaNet, then an MLP or experts, each after a norm.
class HybridDecoderLayer : public DecoderLayer {
 public:
  struct Parts {
    std::variant<AttentionSpec, GatedDeltaNetSpec> mixer;
    std::variant<MoeSpec, MlpSpec> mlp;
    NormSpec norm;
    int64_t shared_intermediate = 0;  // of an expert for all tokens, weighted by a gate; 0: none
  };
  explicit HybridDecoderLayer(const Parts& parts);
  LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override;

 private:
  const Attention* self_attn_ = nullptr;
  const GatedDeltaNet* linear_attn_ = nullptr;
  const SparseMoE* moe_ = nullptr;
  const MLP *mlp_ = nullptr, *shared_expert_ = nullptr;
  const Linear* shared_expert_gate_ = nullptr;
  const Norm *input_layernorm_, *post_attention_layernorm_;
};

// The two kinds of layers of these models.
AttentionSpec gated_attention(const DecoderConfig& config, int64_t layer_idx);
GatedDeltaNetSpec delta_net(const DecoderConfig& config, const LinearAttentionKeys& linear, int64_t layer_idx);
NormSpec zero_centered_norm(const DecoderConfig& config);

class Qwen3NextDecoderLayer : public HybridDecoderLayer {
 public:
  Qwen3NextDecoderLayer(const Qwen3NextConfig& config, int64_t layer_idx);
};

class Qwen3NextModel : public DecoderModel<Qwen3NextConfig, Qwen3NextDecoderLayer>, public Pretrained<Qwen3NextModel> {
 public:
  explicit Qwen3NextModel(const Qwen3NextConfig& config) : DecoderModel(config, {.norm = zero_centered_norm(config)}) {}
};

class Qwen3NextForCausalLM : public ForCausalLM<Qwen3NextModel>, public Pretrained<Qwen3NextForCausalLM> {
 public:
  using ForCausalLM::ForCausalLM;
};

class Qwen3NextForSequenceClassification : public ForSequenceClassification<Qwen3NextModel>,
                                           public Pretrained<Qwen3NextForSequenceClassification> {
 public:
  using ForSequenceClassification::ForSequenceClassification;
};

}  // namespace easydel
