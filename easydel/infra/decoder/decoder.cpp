#include "easydel/infra/decoder/decoder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "easydel/core/error.h"
#include "easydel/infra/decoder/embedding_noise.h"
#include "easydel/infra/heads/row_head.h"
#include "easydel/infra/heads/token_head.h"
#include "easydel/operations/moe/moe.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {

namespace {

// A cache keeps the tables of all its positions, so that a step looks its own up.
operations::RopeTable look_up(Cache& cache, std::size_t index, const at::Tensor& positions,
                              const std::function<operations::RopeTable(const at::Tensor&)>& table) {
  if (cache.rope.size() <= index) {
    const auto all = at::arange(cache.max_length(), at::TensorOptions(at::kLong).device(positions.device()));
    cache.rope.push_back(table(all.unsqueeze(0)));
  }
  const auto rows = [&](const at::Tensor& all) {
    return all.select(0, 0).index_select(0, positions.reshape({-1})).view({positions.size(0), positions.size(1), -1});
  };
  return {rows(cache.rope[index].cos), rows(cache.rope[index].sin)};
}

bool fused_decode_default() {
  static const bool value = [] {
    const char* text = std::getenv("EASYDEL_FUSED_DECODE");
    const std::string_view given = text ? text : "";
    require<ConfigError>(given.empty() || given == "0" || given == "1",
                         "[generate] EASYDEL_FUSED_DECODE must be 0 or 1; got \"", given, "\".");
    return given != "0";
  }();
  return value;
}

}  // namespace

std::shared_ptr<ForwardContext> make_context(const BaseModule& module, const PreparedInputs& prepared,
                                             const std::vector<RopeTableSpec>& rope) {
  const BaseConfig& config = module.config();
  auto ctx = std::make_shared<ForwardContext>();
  ctx->positions = prepared.position_ids;
  ctx->mask = *prepared.mask_info;
  ctx->cache = prepared.past_key_values.get();
  if (ctx->cache) {
    ctx->cache->begin(ctx->positions.size(0), ctx->positions.size(1), prepared.cache_metadata.get());
    if (ctx->mask.padding_mask.defined() && ctx->cache->take_padding(ctx->mask.padding_mask)) {
      ctx->mask.padding_mask.reset();
      ctx->mask.memory = MaskInfo::make_memory();
    }
  }
  if (prepared.part) ctx->part = *prepared.part;
  ctx->dropout_key = prepared.dropout_key;
  ctx->fused_decode = prepared.fused_decode ? *prepared.fused_decode : fused_decode_default();
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
    const at::Tensor& all = prepared.part ? prepared.all_position_ids : ctx->positions;
    const bool by_length = operations::rope_depends_on_length(parameters);
    if (by_length && all.numel() > 0) length = all.max().item<int64_t>() + 1;
    const auto table = [&](const at::Tensor& positions) {
      return operations::rope_table(
          operations::rope_frequencies(parameters, head_dim, config.max_position_embeddings, length), positions,
          module.dtype() == float64 ? at::kDouble : at::kFloat);
    };
    ctx->rope.push_back(ctx->cache && !by_length ? look_up(*ctx->cache, ctx->rope.size(), ctx->positions, table)
                                                 : table(ctx->positions));
  }
  return ctx;
}

at::Tensor embed(const ModelInputs& inputs, const Embedding& table, double scale) {
  if (inputs.inputs_embeds.defined()) return inputs.inputs_embeds.to(table.dtype());
  const at::Tensor x = table(inputs.input_ids);
  return EmbeddingNoise::add(
      scale == 1.0 ? x : x * at::scalar_tensor(scale, at::TensorOptions(table.dtype())).item<double>(), table);
}

at::Tensor drop_embeddings(const at::Tensor& x_BTD, double p, const PreparedInputs& inputs) {
  if (p == 0 || !inputs.dropout_key) return x_BTD;
  return drop(x_BTD, p, inputs.dropout_key->fold("embd"), inputs.part.value_or(BatchPart()));
}

BlockSpec block_spec(const DecoderConfig& c, int64_t layer_idx) {
  return {.attention = {.hidden_size = c.hidden_size,
                        .num_heads = c.num_attention_heads,
                        .num_kv_heads = c.key_value_heads(),
                        .head_dim = c.head_size(),
                        .layer_idx = layer_idx,
                        .qkv_bias = c.attention_bias,
                        .out_bias = c.attention_bias,
                        .sliding_window = c.window_of(layer_idx),
                        .dropout = c.attention_dropout,
                        .init_stddev = c.initializer_range},
          .mlp = {.hidden_size = c.hidden_size,
                  .intermediate_size = c.intermediate_size,
                  .act = c.hidden_act,
                  .bias = c.mlp_bias,
                  .init_stddev = c.initializer_range},
          .norm = {.eps = c.norm_eps}};
}

namespace {

// The tokens that count in the routers' balance: [B, T], zero for padding; undefined when all do.
at::Tensor token_mask(const ModelInputs& inputs, int64_t tokens) {
  if (inputs.attention_mask.defined() && inputs.attention_mask.dim() == 2)
    return inputs.attention_mask.narrow(1, inputs.attention_mask.size(1) - tokens, tokens);
  return inputs.segment_ids.defined() ? inputs.segment_ids.ge(0) : at::Tensor();
}

}  // namespace

at::Tensor router_loss(const BaseModule& module, const ModelOutput& out, const PreparedInputs& inputs) {
  if (out.router_logits.empty()) return {};  // a config may have no layer with experts
  const int64_t top_k = router_balance_of(module.config()).top_k;
  const auto& parallel = module.parallel();
  if (!parallel) {
    return operations::load_balancing_loss(out.router_logits, top_k, token_mask(inputs, out.last_hidden_state.size(1)));
  }
  // Sums over all tokens first, products afterwards.
  operations::RouterStatistics total;
  for (const at::Tensor& logits : out.router_logits)
    total += operations::router_statistics(logits, top_k, inputs.token_mask);
  const at::Tensor sums = collectives::sum(at::cat({total.assignments, total.probabilities, total.tokens.reshape({1})}),
                                           parallel->group(parallel->data()));
  const int64_t experts = total.assignments.numel();
  return operations::load_balancing_loss({sums.narrow(0, 0, experts).detach(),
                                          sums.narrow(0, experts, experts),
                                          sums.select(0, 2 * experts).detach(),
                                          {}});
}

void CausalLMModule::add_head(BaseModule& base, const Embedding& embeddings, bool bias) {
  base_ = &base;
  lm_head_ = &add<Linear>("lm_head", embeddings.features_dim().size, Dim(config().vocab_size, LogicalAxis::Vocab),
                          LinearOptions{.bias = bias, .init_stddev = config().initializer_range, .name = "lm_head"});
  if (config().tie_word_embeddings) lm_head_->tie_weight(embeddings.weight());
}

void CausalLMModule::prepare_whole(PreparedInputs& inputs) const {
  if (!inputs.labels.defined()) return;
  const at::IntArrayRef shape =
      (inputs.input_ids.defined() ? inputs.input_ids : inputs.inputs_embeds).sizes().slice(0, 2);
  require<ShapeError>(inputs.labels.sizes() == shape, "[", type_name(), "] labels must be ", shape, "; got ",
                      inputs.labels.sizes(), ".");
  inputs.targets = lm_targets(inputs.labels, inputs.segment_ids, inputs.loss_config.value_or(LossConfig()));
}

at::Tensor CausalLMModule::logits(const at::Tensor& hidden) const {
  return token_logits(*this, *lm_head_, hidden, logit_options());
}

namespace {

// The base model's outputs, and the routers' balance where somebody asked for it: for router logits, or with labels for
// an auxiliary_loss_coefficient.
ModelOutput run_with_routers(const BaseModule& module, const BaseModule& base, PreparedInputs& inputs,
                             bool by_default) {
  const bool has_routers = router_balance_of(module.config()).top_k > 0;
  const bool wants_logits = has_routers && inputs.output_router_logits.value_or(by_default);
  const bool wants_loss = has_routers && inputs.targets.defined() && inputs.loss_config &&
                          inputs.loss_config->auxiliary_loss_coefficient.value_or(0.0) != 0.0;
  inputs.output_router_logits = wants_logits || wants_loss;
  ModelOutput out = base.forward(inputs);
  out.aux_loss = router_loss(module, out, inputs);
  if (!wants_logits) out.router_logits.clear();
  return out;
}

void add_router_loss(ModelOutput& out, const LossConfig& config, double coefficient) {
  if (!out.aux_loss.defined()) return;
  out.loss = out.loss + config.auxiliary_loss_coefficient.value_or(coefficient) * out.aux_loss;
  out.metrics.loss = out.loss.detach();
  out.metrics.aux_loss = out.aux_loss.detach();
}

}  // namespace

ModelOutput CausalLMModule::forward(const PreparedInputs& given) const {
  const RouterBalance balance = router_balance_of(config());
  PreparedInputs inputs = given;
  ModelOutput out = run_with_routers(*this, *base_, inputs, balance.output_router_logits);

  add_token_outputs(*this, *lm_head_, out.last_hidden_state, inputs, logit_options(), out);
  if (inputs.targets.defined()) add_router_loss(out, inputs.loss_config.value_or(LossConfig()), balance.coefficient);
  return out;
}

std::string CausalLMModule::torch_path(const std::string& path) const { return base_->torch_path(path); }

std::string SequenceClassificationModule::torch_path(const std::string& path) const { return base_->torch_path(path); }

void SequenceClassificationModule::add_head(BaseModule& base, int64_t features) {
  base_ = &base;
  score_ = &add<Linear>("score", features, config().num_labels(),
                        LinearOptions{.init_stddev = config().initializer_range, .name = "score"});
}

void SequenceClassificationModule::prepare_whole(PreparedInputs& inputs) const {
  const at::Tensor& given = inputs.input_ids.defined() ? inputs.input_ids : inputs.inputs_embeds;
  const int64_t batch = given.size(0);
  const int64_t tokens = given.size(1);
  const std::optional<int64_t> pad = config().pad_token_id;
  // The last token that is no padding speaks for the sequence; padding is known by its id, as in transformers.
  require<ConfigError>(pad || batch == 1, "[", type_name(), "] a batch of ", batch,
                       " sequences needs pad_token_id in the config, to find where each ends.");
  take_row_labels(*this, batch, inputs);
  inputs.last_tokens = at::full({batch}, tokens - 1, given.options().dtype(at::kLong));
  if (pad && inputs.input_ids.defined()) {
    const at::Tensor places = at::arange(tokens, inputs.last_tokens.options());
    inputs.last_tokens = (places * inputs.input_ids.ne(*pad)).argmax(-1);
  }
}

ModelOutput SequenceClassificationModule::forward(const PreparedInputs& given) const {
  require<NotSupportedError>(!given.past_key_values || !parallel(), "[", type_name(),
                             "] a classifier on a mesh does not support a cache.");
  PreparedInputs inputs = given;
  // Where the call asks for it, as in EasyDeL: transformers' classifiers leave the balance of the routers alone,
  // whatever the config says.
  ModelOutput out = run_with_routers(*this, *base_, inputs, /*by_default=*/false);
  const BatchPart part = inputs.part.value_or(BatchPart());
  out.logits = row_outputs(*this, out.last_hidden_state, inputs.last_tokens, part,
                           [this](const at::Tensor& rows) { return (*score_)(rows); });
  add_row_loss(*this, inputs, part, out);
  if (inputs.targets.defined())
    add_router_loss(out, inputs.loss_config.value_or(LossConfig()), router_balance_of(config()).coefficient);
  return out;
}

}  // namespace easydel
