// Letters: B batch, T tokens, D hidden.
#include "easydel/models/bert/model.h"

#include <ATen/ATen.h>

#include "easydel/infra/heads/row_head.h"
#include "easydel/infra/heads/token_head.h"

namespace easydel {
namespace {

TransformerBlockSpec bert_layer(const BertFamilyConfig& c, int64_t layer_idx) {
  return {.attention = {.hidden_size = c.hidden_size,
                        .num_heads = c.num_attention_heads,
                        .num_kv_heads = c.num_attention_heads,
                        .head_dim = c.head_size(),
                        .layer_idx = layer_idx,
                        .qkv_bias = true,
                        .out_bias = true,
                        .cached = false,
                        .rope = std::nullopt,
                        .dropout = c.attention_probs_dropout_prob,
                        .init_stddev = c.initializer_range,
                        .q_name = "self.query",
                        .k_name = "self.key",
                        .v_name = "self.value",
                        .out_name = "output.dense"},
          .mlp = {.hidden_size = c.hidden_size,
                  .intermediate_size = c.intermediate_size,
                  .act = c.hidden_act,
                  .gated = false,
                  .bias = true,
                  .init_stddev = c.initializer_range,
                  .up_name = "intermediate.dense",
                  .down_name = "output.dense"},
          .norm = {.kind = NormSpec::Kind::Layer, .eps = c.layer_norm_eps},
          .post_norm = true,
          .dropout = c.hidden_dropout_prob,
          .attention_name = "attention",
          .mlp_name = "",
          .attention_norm = "attention.output.LayerNorm",
          .mlp_norm = "output.LayerNorm"};
}

BatchPart part_or_all(const PreparedInputs& inputs) { return inputs.part.value_or(BatchPart()); }

at::Tensor dropped_rows(const at::Tensor& x, double p, const PreparedInputs& inputs, const char* place) {
  return inputs.dropout_key ? drop_rows(x, p, inputs.dropout_key->fold(place), part_or_all(inputs)) : x;
}

at::Tensor dropped_tokens(const at::Tensor& x, double p, const PreparedInputs& inputs, const char* place) {
  return inputs.dropout_key && p > 0 ? drop(x, p, inputs.dropout_key->fold(place), part_or_all(inputs)) : x;
}

}  // namespace

BertLayer::BertLayer(const BertFamilyConfig& c, int64_t layer_idx) : TransformerBlock(bert_layer(c, layer_idx)) {}

BertEncoder::BertEncoder(const BertFamilyConfig& c, bool pools) : BaseModule(c) {
  const double stddev = c.initializer_range;
  Embedding& words =
      add<Embedding>("embeddings.word_embeddings", Dim(c.vocab_size, LogicalAxis::Vocab), c.hidden_size, stddev);
  Embedding& positions =
      add<Embedding>("embeddings.position_embeddings", c.max_position_embeddings, c.hidden_size, stddev);
  words.set_padding(c.pad_token_id);
  if (c.is_roberta()) positions.set_padding(c.pad_token_id);
  word_embeddings_ = &words;
  position_embeddings_ = &positions;
  token_type_embeddings_ =
      &add<Embedding>("embeddings.token_type_embeddings", c.type_vocab_size, c.hidden_size, stddev);
  norm_ = &add<LayerNorm>("embeddings.LayerNorm", c.hidden_size, c.layer_norm_eps);
  layers_ = &add<ModuleList<BertLayer>>("encoder.layer");
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_->append(c, i);
  if (pools) {
    pooler_ = &add<Linear>("pooler.dense", c.hidden_size, c.hidden_size,
                           LinearOptions{.bias = true, .init_stddev = stddev, .name = "pooler"});
  }
}

void BertEncoder::prepare_whole(PreparedInputs& inputs) const {
  see_both_ways(inputs);
  inputs.last_tokens = at::zeros({inputs.position_ids.size(0)}, inputs.position_ids.options());
  // all_position_ids are those that the caller gave.
  if (!bert().is_roberta() || inputs.all_position_ids.defined()) return;
  const int64_t pad = *config().pad_token_id;
  if (inputs.input_ids.defined()) {
    const at::Tensor seen = inputs.input_ids.ne(pad).to(at::kLong);
    inputs.position_ids = seen.cumsum(1) * seen + pad;
  } else {
    inputs.position_ids = inputs.position_ids + pad + 1;
  }
}

ModelOutput BertEncoder::encode(const PreparedInputs& inputs) const {
  const at::Tensor types =
      inputs.token_type_ids.defined() ? inputs.token_type_ids : at::zeros_like(inputs.position_ids);
  const at::Tensor x_BTD = embed(inputs, *word_embeddings_) + (*token_type_embeddings_)(types) +
                           (*position_embeddings_)(inputs.position_ids);
  return run_decoder(*this, inputs, drop_embeddings((*norm_)(x_BTD), bert().hidden_dropout_prob, inputs), *layers_,
                     [](const at::Tensor& x) { return x; });
}

ModelOutput BertEncoder::forward(const PreparedInputs& inputs) const {
  ModelOutput out = encode(inputs);
  if (pooler_) {
    out.pooler_output = row_outputs(*this, out.last_hidden_state, inputs.last_tokens, part_or_all(inputs),
                                    [this](const at::Tensor& rows) { return pooled(rows); });
  }
  return out;
}

at::Tensor BertEncoder::pooled(const at::Tensor& rows) const { return at::tanh((*pooler_)(rows)); }

BertHead::BertHead(const BertFamilyConfig& c, bool pools)
    : BaseModule(c), prefix_(c.is_roberta() ? "roberta" : "bert"), base_(&add<BertEncoder>(prefix_, c, pools)) {}

LinearOptions BertHead::head_options(const char* name) const {
  return {.bias = true, .init_stddev = config().initializer_range, .name = name};
}

BertMaskedLM::BertMaskedLM(const BertFamilyConfig& c)
    : BertHead(c, /*pools=*/false), act_(operations::find_activation(c.is_roberta() ? "gelu" : c.hidden_act)) {
  const std::string head = c.is_roberta() ? "lm_head" : "cls.predictions";
  const std::string transform = c.is_roberta() ? "lm_head" : "cls.predictions.transform";
  dense_ = &add<Linear>(transform + ".dense", c.hidden_size, c.hidden_size, head_options("dense"));
  norm_ = &add<LayerNorm>(transform + (c.is_roberta() ? ".layer_norm" : ".LayerNorm"), c.hidden_size, c.layer_norm_eps);
  decoder_ =
      &add<Linear>(head + ".decoder", c.hidden_size, Dim(c.vocab_size, LogicalAxis::Vocab), head_options("lm_head"));
  if (c.tie_word_embeddings) {
    decoder_->tie_weight(base().embeddings().weight());
    set_parameter(head + ".bias", decoder_->bias());  // the name in files
  } else {
    // transformers unties the bias too: decoder.bias is the one that is added, and this one is saved and never used.
    add_parameter(head + ".bias", {Dim(c.vocab_size, LogicalAxis::Vocab)}, Initializer::zeros());
  }
}

void BertMaskedLM::prepare_whole(PreparedInputs& inputs) const {
  base().prepare_whole(inputs);
  take_token_labels(*this, inputs.position_ids, inputs);
}

ModelOutput BertMaskedLM::forward(const PreparedInputs& inputs) const {
  ModelOutput out = base().encode(inputs);
  add_token_outputs(*this, *decoder_, (*norm_)(act_((*dense_)(out.last_hidden_state))), inputs, {}, out);
  return out;
}

BertTokenClassification::BertTokenClassification(const BertFamilyConfig& c)
    : BertHead(c, /*pools=*/false),
      classifier_(&add<Linear>("classifier", c.hidden_size, c.num_labels(), head_options("classifier"))) {}

void BertTokenClassification::prepare_whole(PreparedInputs& inputs) const {
  base().prepare_whole(inputs);
  take_token_labels(*this, inputs.position_ids, inputs);
}

ModelOutput BertTokenClassification::forward(const PreparedInputs& inputs) const {
  ModelOutput out = base().encode(inputs);
  const at::Tensor hidden = dropped_tokens(out.last_hidden_state, bert().head_dropout(), inputs, "classifier");
  add_token_outputs(*this, *classifier_, hidden, inputs, {}, out);
  return out;
}

BertQuestionAnswering::BertQuestionAnswering(const BertFamilyConfig& c)
    : BertHead(c, /*pools=*/false),
      qa_outputs_(&add<Linear>("qa_outputs", c.hidden_size, c.num_labels(), head_options("qa_outputs"))) {}

void BertQuestionAnswering::prepare_whole(PreparedInputs& inputs) const {
  base().prepare_whole(inputs);
  take_span_labels(*this, inputs.position_ids.size(0), inputs);
}

ModelOutput BertQuestionAnswering::forward(const PreparedInputs& inputs) const {
  ModelOutput out = base().encode(inputs);
  add_span_outputs(*this, (*qa_outputs_)(out.last_hidden_state), inputs, part_or_all(inputs), out);
  return out;
}

BertSequenceClassification::BertSequenceClassification(const BertFamilyConfig& c)
    : BertHead(c, /*pools=*/!c.is_roberta()) {
  if (c.is_roberta()) dense_ = &add<Linear>("classifier.dense", c.hidden_size, c.hidden_size, head_options("dense"));
  classifier_ = &add<Linear>(c.is_roberta() ? "classifier.out_proj" : "classifier", c.hidden_size, c.num_labels(),
                             head_options("score"));
}

void BertSequenceClassification::prepare_whole(PreparedInputs& inputs) const {
  base().prepare_whole(inputs);
  take_row_labels(*this, inputs.position_ids.size(0), inputs);
}

ModelOutput BertSequenceClassification::forward(const PreparedInputs& inputs) const {
  ModelOutput out = base().encode(inputs);
  const double p = bert().head_dropout();
  // The whole head runs on the rank that has the row's first token.
  out.logits =
      row_outputs(*this, out.last_hidden_state, inputs.last_tokens, part_or_all(inputs), [&](const at::Tensor& x) {
        const at::Tensor pooled = dense_ ? at::tanh((*dense_)(dropped_rows(x, p, inputs, "pooled"))) : base().pooled(x);
        return (*classifier_)(dropped_rows(pooled, p, inputs, "classifier"));
      });
  add_row_loss(*this, inputs, part_or_all(inputs), out);
  return out;
}

}  // namespace easydel
