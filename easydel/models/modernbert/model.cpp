// The layer: layers/decoder_block.cpp. Letters: B batch, T tokens, D hidden.
#include "easydel/models/modernbert/model.h"

#include <ATen/ATen.h>

#include "easydel/infra/encoder/seq2seq_inputs.h"
#include "easydel/infra/heads/row_head.h"
#include "easydel/infra/heads/token_head.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

NormSpec modernbert_norm(const ModernBertConfig& c) {
  return {.kind = NormSpec::Kind::Layer, .eps = c.norm_eps, .bias = c.norm_bias};
}

BlockSpec modernbert_block(const ModernBertConfig& c, int64_t layer_idx) {
  BlockSpec spec = block_spec(c, layer_idx);
  spec.norm = modernbert_norm(c);
  spec.attention.cached = false;
  spec.attention.fused_qkv = true;
  spec.attention.qkv_name = "Wqkv";
  spec.attention.out_name = "Wo";
  spec.attention.rope = c.is_sliding(layer_idx) ? 1 : 0;
  spec.attention_out_dropout = c.attention_dropout;
  spec.mlp.fused_gate_up = true;
  spec.mlp.gate_up_name = "Wi";
  spec.mlp.down_name = "Wo";
  spec.mlp.dropout = c.mlp_dropout;
  spec.mlp.layer_idx = layer_idx;
  spec.attention_name = "attn";
  spec.before_attention = layer_idx == 0 ? "" : "attn_norm";  // the embeddings have one
  spec.before_mlp = "mlp_norm";
  return spec;
}

BatchPart part_or_all(const PreparedInputs& inputs) { return inputs.part.value_or(BatchPart()); }

}  // namespace

ModernBertEncoderLayer::ModernBertEncoderLayer(const ModernBertConfig& c, int64_t layer_idx)
    : DecoderBlock(modernbert_block(c, layer_idx)) {}

ModernBertModel::ModernBertModel(const ModernBertConfig& c)
    : BaseModule(c),
      tok_embeddings_(add<Embedding>("embeddings.tok_embeddings", Dim(c.vocab_size, LogicalAxis::Vocab), c.hidden_size,
                                     c.initializer_range)),
      embedding_norm_(*add_norm(*this, "embeddings.norm", c.hidden_size, modernbert_norm(c))),
      layers_(add<ModuleList<ModernBertEncoderLayer>>("layers")),
      final_norm_(*add_norm(*this, "final_norm", c.hidden_size, modernbert_norm(c))) {
  tok_embeddings_.set_padding(c.pad_token_id);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.append(c, i);
}

void ModernBertModel::prepare_whole(PreparedInputs& inputs) const {
  see_both_ways(inputs);
  inputs.last_tokens = at::zeros({inputs.position_ids.size(0)}, inputs.position_ids.options());
}

ModelOutput ModernBertModel::forward(const PreparedInputs& inputs) const {
  const auto& c = static_cast<const ModernBertConfig&>(config());
  const at::Tensor x_BTD = embedding_norm_(embed(inputs, tok_embeddings_));
  return run_decoder(
      *this, inputs, drop_embeddings(x_BTD, c.embedding_dropout, inputs), layers_, final_norm_,
      {{c.rope_by_type.full_attention, c.head_size()}, {c.rope_by_type.sliding_attention, c.head_size()}});
}

ModernBertHead::ModernBertHead(const ModernBertConfig& c)
    : BaseModule(c),
      base_(add<ModernBertModel>("model", c)),
      act_(operations::find_activation(c.classifier_activation)),
      dense_(
          add<Linear>("head.dense", c.hidden_size, c.hidden_size,
                      LinearOptions{.bias = c.classifier_bias, .init_stddev = c.initializer_range, .name = "dense"})),
      norm_(*add_norm(*this, "head.norm", c.hidden_size, modernbert_norm(c))) {}

Linear& ModernBertHead::add_classifier() {
  return add<Linear>("classifier", config().hidden_size, config().num_labels(),
                     LinearOptions{.bias = true, .init_stddev = config().initializer_range, .name = "classifier"});
}

at::Tensor ModernBertHead::transform_tokens(const at::Tensor& hidden, const PreparedInputs& inputs) const {
  const at::Tensor y = transform(hidden);
  const double p = bert().classifier_dropout;
  return inputs.dropout_key && p > 0 ? drop(y, p, inputs.dropout_key->fold("classifier"), part_or_all(inputs)) : y;
}

ModernBertForMaskedLM::ModernBertForMaskedLM(const ModernBertConfig& c)
    : ModernBertHead(c),
      decoder_(
          add<Linear>("decoder", c.hidden_size, Dim(c.vocab_size, LogicalAxis::Vocab),
                      LinearOptions{.bias = c.decoder_bias, .init_stddev = c.initializer_range, .name = "lm_head"})) {
  if (c.tie_word_embeddings) decoder_.tie_weight(base().embeddings().weight());
}

void ModernBertForMaskedLM::prepare_whole(PreparedInputs& inputs) const {
  base().prepare_whole(inputs);
  take_token_labels(*this, inputs.position_ids, inputs);
}

ModelOutput ModernBertForMaskedLM::forward(const PreparedInputs& inputs) const {
  ModelOutput out = base().forward(inputs);
  add_token_outputs(*this, decoder_, transform(out.last_hidden_state), inputs, {}, out);
  return out;
}

ModernBertForTokenClassification::ModernBertForTokenClassification(const ModernBertConfig& c)
    : ModernBertHead(c), classifier_(add_classifier()) {}

void ModernBertForTokenClassification::prepare_whole(PreparedInputs& inputs) const {
  base().prepare_whole(inputs);
  take_token_labels(*this, inputs.position_ids, inputs);
}

ModelOutput ModernBertForTokenClassification::forward(const PreparedInputs& inputs) const {
  ModelOutput out = base().forward(inputs);
  add_token_outputs(*this, classifier_, transform_tokens(out.last_hidden_state, inputs), inputs, {}, out);
  return out;
}

ModernBertForQuestionAnswering::ModernBertForQuestionAnswering(const ModernBertConfig& c)
    : ModernBertHead(c), classifier_(add_classifier()) {}

void ModernBertForQuestionAnswering::prepare_whole(PreparedInputs& inputs) const {
  base().prepare_whole(inputs);
  take_span_labels(*this, inputs.position_ids.size(0), inputs);
}

ModelOutput ModernBertForQuestionAnswering::forward(const PreparedInputs& inputs) const {
  ModelOutput out = base().forward(inputs);
  add_span_outputs(*this, classifier_(transform_tokens(out.last_hidden_state, inputs)), inputs, part_or_all(inputs),
                   out);
  return out;
}

ModernBertForSequenceClassification::ModernBertForSequenceClassification(const ModernBertConfig& c)
    : ModernBertHead(c), classifier_(add_classifier()) {}

void ModernBertForSequenceClassification::prepare_whole(PreparedInputs& inputs) const {
  base().prepare_whole(inputs);
  take_row_labels(*this, inputs.position_ids.size(0), inputs);
}

at::Tensor ModernBertForSequenceClassification::mean_of_tokens(const at::Tensor& hidden_BTD,
                                                               const PreparedInputs& inputs) const {
  at::Tensor mask = parallel() ? inputs.token_mask : inputs.attention_mask;
  if (!parallel() && inputs.segment_ids.defined()) mask = inputs.segment_ids.ge(0);
  const at::Tensor counted_BT1 =
      mask.defined() ? mask.to(hidden_BTD.options()).unsqueeze(2) : at::ones_like(hidden_BTD.narrow(2, 0, 1));
  at::Tensor sums = at::cat({hidden_BTD * counted_BT1, counted_BT1}, 2).sum(1);
  if (parallel()) {  // each rank has some of a row's tokens, and one of them goes on with the row
    const Group& group = parallel()->group(parallel()->sequence());
    sums = collectives::identity_forward_sum_backward(collectives::sum(sums, group), group);
  }
  const int64_t width = hidden_BTD.size(2);
  const at::Tensor mean = sums.narrow(1, 0, width) / sums.narrow(1, width, 1).clamp_min(1);
  return mean.unsqueeze(1).expand_as(hidden_BTD);
}

ModelOutput ModernBertForSequenceClassification::forward(const PreparedInputs& inputs) const {
  ModelOutput out = base().forward(inputs);
  const at::Tensor rows =
      bert().classifier_pooling == "mean" ? mean_of_tokens(out.last_hidden_state, inputs) : out.last_hidden_state;
  // The whole head runs on the rank that has the row's first token.
  out.logits = row_outputs(*this, rows, inputs.last_tokens, part_or_all(inputs), [&](const at::Tensor& x) {
    const at::Tensor y = transform(x);
    const double p = bert().classifier_dropout;
    const bool drops = inputs.dropout_key && p > 0;
    return classifier_(drops ? drop_rows(y, p, inputs.dropout_key->fold("classifier"), part_or_all(inputs)) : y);
  });
  add_row_loss(*this, inputs, part_or_all(inputs), out);
  return out;
}

}  // namespace easydel
