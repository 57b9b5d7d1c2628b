// Mamba: layers of a norm and a mixer, and nothing else.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/layers/recurrent/mamba.h"
#include "easydel/models/mamba/config.h"

namespace easydel {

// The layer of Mamba and Mamba 2.
template <class Mixer, class MixerSpec>
class StateSpaceBlock : public DecoderLayer {
 public:
  StateSpaceBlock(const StateSpaceConfig& c, const MixerSpec& spec)
      : residual_in_fp32_(c.residual_in_fp32),
        norm_(add<RMSNorm>("norm", c.hidden_size, c.layer_norm_epsilon)),
        mixer_(add<Mixer>("mixer", spec)) {}

  LayerOutput operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const override {
    const at::Tensor residual = residual_in_fp32_ && dtype() != float64 ? x_BTD.to(at::kFloat) : x_BTD;
    return {.hidden = residual.add(mixer_(norm_(x_BTD.to(dtype())), ctx))};
  }

 private:
  bool residual_in_fp32_;
  const RMSNorm& norm_;
  const Mixer& mixer_;
};

// Runs the layers and the last norm. The hidden states are those that transformers gives: after each layer.
ModelOutput run_state_space(const BaseModule& module, const PreparedInputs& inputs, const Embedding& embeddings,
                            const std::vector<const DecoderLayer*>& layers, const RMSNorm& norm);

template <class C, class Block>
class StateSpaceModel : public BaseModule {
 public:
  using ConfigType = C;
  explicit StateSpaceModel(const C& c)
      : BaseModule(c),
        embeddings_(
            add<Embedding>("embeddings", Dim(c.vocab_size, LogicalAxis::Vocab), c.hidden_size, c.initializer_range)),
        layers_(add<ModuleList<Block>>("layers")),
        norm_f_(add<RMSNorm>("norm_f", c.hidden_size, c.layer_norm_epsilon)) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.append(c, i);
  }
  ModelOutput forward(const PreparedInputs& inputs) const override {
    return run_state_space(*this, inputs, embeddings_, {layers_.begin(), layers_.end()}, norm_f_);
  }
  const Embedding& embeddings() const { return embeddings_; }

 private:
  const Embedding& embeddings_;
  ModuleList<Block>& layers_;
  const RMSNorm& norm_f_;
};

MambaSpec mamba_spec(const MambaConfig& config, int64_t layer_idx);

class MambaBlock : public StateSpaceBlock<MambaMixer, MambaSpec> {
 public:
  MambaBlock(const MambaConfig& config, int64_t layer_idx);
};

class MambaModel : public StateSpaceModel<MambaConfig, MambaBlock>, public Pretrained<MambaModel> {
 public:
  using StateSpaceModel::StateSpaceModel;
};

class MambaForCausalLM : public ForCausalLM<MambaModel>, public Pretrained<MambaForCausalLM> {
 public:
  explicit MambaForCausalLM(const MambaConfig& config) : ForCausalLM(config, "backbone") {}
};

}  // namespace easydel
