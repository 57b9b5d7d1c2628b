#include "easydel/infra/decoder.h"

#include "easydel/core/error.h"
#include "easydel/operations/moe.h"

namespace easydel {

std::shared_ptr<const ForwardContext> make_context(const BaseModule& module, const ModelInputs& prepared,
                                                   const std::vector<RopeTableSpec>& rope) {
  const BaseConfig& config = module.config();
  auto ctx = std::make_shared<ForwardContext>();
  ctx->positions = prepared.position_ids;
  ctx->mask = *prepared.mask_info;
  ctx->cache = prepared.past_key_values.get();
  ctx->dropout_key = prepared.dropout_key;
  ctx->output_attentions = prepared.output_attentions.value_or(config.output_attentions);
  ctx->output_hidden_states = prepared.output_hidden_states.value_or(config.output_hidden_states);
  ctx->output_router_logits = prepared.output_router_logits.value_or(false);
  ctx->attention.mechanism = config.attention.mechanism;
  ctx->attention.blocksize_q = config.attention.blocksize_q;
  ctx->attention.blocksize_k = config.attention.blocksize_k;
  ctx->attention.dtype = config.attention.dtype;
  ctx->checkpoint =
      operations::CheckpointPolicy(config.memory.gradient_checkpointing, config.memory.gradient_checkpointing_targets);
  for (const auto& [parameters, head_dim] : rope) {
    std::optional<int64_t> length;
    if (operations::rope_depends_on_length(parameters) && ctx->positions.numel() > 0) {
      length = ctx->positions.max().item<int64_t>() + 1;
    }
    ctx->rope.push_back(operations::rope_table(
        operations::rope_frequencies(parameters, head_dim, config.max_position_embeddings, length), ctx->positions,
        module.dtype() == float64 ? at::kDouble : at::kFloat));
  }
  return ctx;
}

at::Tensor embed(const ModelInputs& inputs, const Embedding& table) {
  return inputs.inputs_embeds.defined() ? inputs.inputs_embeds.to(table.dtype()) : table(inputs.input_ids);
}

void CausalLMModule::add_head(BaseModule& base, const Embedding& embeddings) {
  base_ = &base;
  lm_head_ = &add<Linear>("lm_head", config().hidden_size, config().vocab_size,
                          LinearOptions{.init_stddev = config().initializer_range, .name = "lm_head"});
  if (config().tie_word_embeddings) lm_head_->tie_weight(embeddings.weight());
}

ModelOutput CausalLMModule::forward(const ModelInputs& given) const {
  const RouterBalance balance = router_balance();
  ModelInputs inputs = prepare_inputs_for_call(given);
  const bool routers = balance.top_k > 0 && inputs.output_router_logits.value_or(balance.output_router_logits);
  inputs.output_router_logits = routers;
  ModelOutput out = base_->forward(inputs);

  const bool has_labels = inputs.labels.defined();
  const LogitOptions logit_options = this->logit_options();
  if (inputs.output_logits.value_or(!has_labels)) {
    out.logits = (*lm_head_)(out.last_hidden_state);
    if (logit_options.scale != 1.0) out.logits = out.logits * logit_options.scale;
    if (logit_options.softcap != 0.0) {
      out.logits = at::tanh(out.logits / logit_options.softcap) * logit_options.softcap;
    }
  }
  const LossConfig loss_config = inputs.loss_config.value_or(LossConfig());
  if (has_labels) {
    require<ShapeError>(inputs.labels.sizes() == out.last_hidden_state.sizes().slice(0, 2), "[", type_name(),
                        "] labels must be ", out.last_hidden_state.sizes().slice(0, 2), "; got ", inputs.labels.sizes(),
                        ".");
    Loss loss = causal_lm_loss(out.last_hidden_state, lm_head_->weight()->value(), {}, inputs.labels,
                               inputs.segment_ids, loss_config, logit_options);
    out.loss = std::move(loss.loss);
    out.metrics = std::move(loss.metrics);
  }
  if (routers) {
    out.aux_loss = operations::load_balancing_loss(out.router_logits, balance.top_k, inputs.attention_mask);
    const double coefficient = loss_config.auxiliary_loss_coefficient.value_or(balance.coefficient);
    if (has_labels) {
      out.loss = out.loss + coefficient * out.aux_loss;
      out.metrics.loss = out.loss.detach();
      out.metrics.aux_loss = out.aux_loss.detach();
    }
  }
  return out;
}

std::string CausalLMModule::torch_path(const std::string& path) const { return base_->torch_path(path); }

std::string SequenceClassificationModule::torch_path(const std::string& path) const { return base_->torch_path(path); }

void SequenceClassificationModule::add_head(BaseModule& base) {
  base_ = &base;
  score_ = &add<Linear>("score", config().hidden_size, config().num_labels(),
                        LinearOptions{.init_stddev = config().initializer_range, .name = "score"});
}

ModelOutput SequenceClassificationModule::forward(const ModelInputs& given) const {
  const ModelInputs inputs = prepare_inputs_for_call(given);
  ModelOutput out = base_->forward(inputs);
  const int64_t batch = out.last_hidden_state.size(0);
  const int64_t tokens = out.last_hidden_state.size(1);
  const std::optional<int64_t> pad = config().pad_token_id;
  // The last token that is no padding speaks for the sequence; padding is known by its id, as in transformers.
  require<ConfigError>(pad || batch == 1, "[", type_name(), "] a batch of ", batch,
                       " sequences needs pad_token_id in the config, to find where each ends.");
  at::Tensor last = at::full({batch}, tokens - 1, out.last_hidden_state.options().dtype(at::kLong));
  if (pad && inputs.input_ids.defined()) {
    const at::Tensor places = at::arange(tokens, last.options());
    last = (places * inputs.input_ids.ne(*pad)).argmax(-1);
  }
  const at::Tensor pooled = out.last_hidden_state.index({at::arange(batch, last.options()), last});
  out.logits = (*score_)(pooled);
  if (inputs.labels.defined()) {
    Loss loss = classification_loss(out.logits, inputs.labels, inputs.loss_config.value_or(LossConfig()),
                                    config().problem_type);
    out.loss = std::move(loss.loss);
    out.metrics = std::move(loss.metrics);
  }
  return out;
}

}  // namespace easydel
