// What decoder-only families have in common: the context of a forward pass, and the heads on top of a base model.
#pragma once

#include <memory>
#include <vector>

#include "easydel/infra/auto_model.h"
#include "easydel/infra/config/decoder_config.h"
#include "easydel/infra/loss.h"
#include "easydel/layers/decoder_block.h"
#include "easydel/layers/embedding.h"
#include "easydel/layers/forward_context.h"
#include "easydel/layers/linear.h"
#include "easydel/layers/norm.h"

namespace easydel {

// One rotary table of a model; most have one.
struct RopeTableSpec {
  RopeParameters parameters;
  int64_t head_dim = 0;
};

// The context of one forward pass: positions, masks, tables and the config's settings, on the device of the embeddings.
std::shared_ptr<ForwardContext> make_context(const BaseModule& module, const PreparedInputs& prepared,
                                             const std::vector<RopeTableSpec>& rope = {});

// The given embeddings, or those of the given ids, multiplied by `scale` (rounded to their type).
at::Tensor embed(const ModelInputs& inputs, const Embedding& table, double scale = 1.0);
// With some of them dropped in training.
at::Tensor drop_embeddings(const at::Tensor& x_BTD, double p, const PreparedInputs& inputs);

// A layer as Llama has it, in the sizes of the config: what a family changes of it is its own.
BlockSpec block_spec(const DecoderConfig& config, int64_t layer_idx);

// Runs the layers and the final norm in a context, and gathers the requested outputs.
template <class Layers, class Norm>
ModelOutput run_stack(const std::shared_ptr<const ForwardContext>& context, const PreparedInputs& prepared,
                      at::Tensor embeddings, const Layers& layers, const Norm& norm) {
  StackOutput stack = run_layers({layers.begin(), layers.end()}, std::move(embeddings), context);
  if (context->cache) context->cache->end();
  ModelOutput out;
  out.last_hidden_state = norm(stack.hidden);
  out.hidden_states = std::move(stack.hidden_states);
  if (context->output_hidden_states) out.hidden_states.push_back(out.last_hidden_state);
  out.attentions = std::move(stack.attentions);
  out.cross_attentions = std::move(stack.cross_attentions);
  out.router_logits = std::move(stack.router_logits);
  out.past_key_values = prepared.past_key_values;
  return out;
}

template <class Layers, class Norm>
ModelOutput run_decoder(const BaseModule& module, const PreparedInputs& prepared, at::Tensor embeddings,
                        const Layers& layers, const Norm& norm, const std::vector<RopeTableSpec>& rope = {}) {
  return run_stack(make_context(module, prepared, rope), prepared, std::move(embeddings), layers, norm);
}

// What a base model has around its layers.
struct DecoderSpec {
  NormSpec norm;
  double embedding_scale = 1.0;       // of the table, rounded to its type
  double embedding_multiplier = 1.0;  // of the same, not rounded
  double input_scale = 1.0;           // of what enters the layers, be it embedded here or given
  double embedding_dropout = 0.0;
  std::string embeddings_name = "embed_tokens", norm_name = "norm", layers_name = "layers";
  std::string embedding_norm_name = "";  // of the embeddings; empty: none
};
inline DecoderSpec decoder_spec(const DecoderConfig& c) { return {.norm = {.eps = c.norm_eps}}; }

// The base model of most families: embeddings, rotary layers, and a norm.
template <class C, class Layer>
class DecoderModel : public BaseModule {
 public:
  using ConfigType = C;
  explicit DecoderModel(const C& c) : DecoderModel(c, decoder_spec(c)) {}
  DecoderModel(const C& c, const DecoderSpec& spec)
      : BaseModule(c),
        spec_(spec),
        embed_tokens_(add<Embedding>(spec.embeddings_name, Dim(c.vocab_size, LogicalAxis::Vocab), c.hidden_size,
                                     c.initializer_range)),
        embedding_norm_(add_norm(*this, spec.embedding_norm_name, c.hidden_size, spec.norm)),
        layers_(add<ModuleList<Layer>>(spec.layers_name)),
        norm_(*add_norm(*this, spec.norm_name, c.hidden_size, spec.norm)) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.append(c, i);
  }

  ModelOutput forward(const PreparedInputs& inputs) const override {
    at::Tensor x_BTD = embed(inputs, embed_tokens_, spec_.embedding_scale);
    if (spec_.embedding_multiplier != 1.0 && !inputs.inputs_embeds.defined())
      x_BTD = x_BTD.mul(spec_.embedding_multiplier);
    if (spec_.input_scale != 1.0) x_BTD = x_BTD.mul(spec_.input_scale);
    if (embedding_norm_) x_BTD = (*embedding_norm_)(x_BTD);
    return run_decoder(*this, inputs, drop_embeddings(x_BTD, spec_.embedding_dropout, inputs), layers_, norm_,
                       rope_tables());
  }
  const Embedding& embeddings() const { return embed_tokens_; }

 protected:
  virtual std::vector<RopeTableSpec> rope_tables() const { return {{config().rope, config().head_size()}}; }

 private:
  DecoderSpec spec_;
  const Embedding& embed_tokens_;
  const Norm* embedding_norm_;
  ModuleList<Layer>& layers_;
  const Norm& norm_;
};

// The auxiliary loss of the routers, of all ranks' tokens that are not padding: `prepared` is what the layers were
// given. Undefined where there are no router logits.
at::Tensor router_loss(const BaseModule& module, const ModelOutput& out, const PreparedInputs& prepared);

class CausalLMModule : public BaseModule {
 public:
  TaskType model_task() const override { return TaskType::CausalLM; }
  bool can_generate() const override { return true; }
  std::string base_model_prefix() const override { return prefix_; }
  std::string torch_path(const std::string& path) const override;
  ModelOutput forward(const PreparedInputs& given) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

  BaseModule& base_model() const { return *base_; }
  Linear& lm_head() const { return *lm_head_; }
  // [..., V] of a rank's own hidden states [..., D], over the whole vocabulary.
  at::Tensor logits(const at::Tensor& hidden) const;

 protected:
  CausalLMModule(const BaseConfig& config, std::string prefix) : BaseModule(config), prefix_(std::move(prefix)) {}
  // Adds the head behind the base model, and ties it where the config says so.
  void add_head(BaseModule& base, const Embedding& embeddings, bool bias = false);
  virtual LogitOptions logit_options() const { return {}; }

 private:
  std::string prefix_;
  BaseModule* base_ = nullptr;
  Linear* lm_head_ = nullptr;
};

class SequenceClassificationModule : public BaseModule {
 public:
  TaskType model_task() const override { return TaskType::SequenceClassification; }
  std::string base_model_prefix() const override { return prefix_; }
  std::string torch_path(const std::string& path) const override;
  ModelOutput forward(const PreparedInputs& given) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 protected:
  SequenceClassificationModule(const BaseConfig& config, std::string prefix)
      : BaseModule(config), prefix_(std::move(prefix)) {}
  void add_head(BaseModule& base, int64_t features);  // of its hidden states

 private:
  std::string prefix_;
  BaseModule* base_ = nullptr;
  Linear* score_ = nullptr;
};

// A base model M, whose config type is M::ConfigType and whose embeddings M::embeddings() returns, with a head on top:
//   class LlamaForCausalLM : public ForCausalLM<LlamaModel> { using ForCausalLM::ForCausalLM; };
template <class M>
class ForCausalLM : public CausalLMModule {
 public:
  using ConfigType = typename M::ConfigType;
  explicit ForCausalLM(const ConfigType& config, const char* prefix = "model", bool head_bias = false)
      : CausalLMModule(config, prefix) {
    M& base = add<M>(prefix, config);
    add_head(base, base.embeddings(), head_bias);
  }
};

template <class M>
class ForSequenceClassification : public SequenceClassificationModule {
 public:
  using ConfigType = typename M::ConfigType;
  explicit ForSequenceClassification(const ConfigType& config, const char* prefix = "model")
      : SequenceClassificationModule(config, prefix) {
    M& base = add<M>(prefix, config);
    add_head(base, base.embeddings().features_dim().size);
  }
};

}  // namespace easydel
