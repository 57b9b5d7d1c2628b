// Letters: B batch, T tokens, D hidden.
#include "easydel/models/t5/model.h"

#include <ATen/ATen.h>

#include <cmath>

#include "easydel/infra/heads/row_head.h"
#include "easydel/infra/heads/token_head.h"

namespace easydel {
namespace {

double root_of(int64_t size) { return 1 / std::sqrt(static_cast<double>(size)); }

AttentionSpec t5_attention(const T5FamilyConfig& c, T5Part part, int64_t layer_idx) {
  const double factor = c.initializer_factor;
  return {.hidden_size = c.hidden_size,
          .num_heads = c.num_attention_heads,
          .num_kv_heads = c.num_attention_heads,
          .head_dim = c.head_size(),
          .layer_idx = layer_idx,
          .cached = part == T5Part::Decoder,
          .rope = std::nullopt,
          .scale = 1.0,
          .dropout = c.dropout_rate,
          .init_stddev = factor * root_of(c.hidden_size),
          .q_init_stddev = factor * root_of(c.hidden_size * c.head_size()),
          .out_init_stddev = factor * root_of(c.num_attention_heads * c.head_size()),
          .q_name = "q",
          .k_name = "k",
          .v_name = "v",
          .out_name = "o"};
}

TransformerBlockSpec t5_block(const T5FamilyConfig& c, T5Part part, int64_t layer_idx) {
  const bool decodes = part == T5Part::Decoder;
  const std::string last = decodes ? "layer.2" : "layer.1";
  TransformerBlockSpec spec{.attention = t5_attention(c, part, layer_idx),
                            .mlp = {.hidden_size = c.hidden_size,
                                    .intermediate_size = c.intermediate_size,
                                    .act = c.activation(),
                                    .gated = c.is_gated(),
                                    .dropout = c.dropout_rate,
                                    .layer_idx = layer_idx,
                                    .init_stddev = c.initializer_factor * root_of(c.hidden_size),
                                    .down_init_stddev = c.initializer_factor * root_of(c.intermediate_size),
                                    .gate_name = "wi_0",
                                    .up_name = c.is_gated() ? "wi_1" : "wi",
                                    .down_name = "wo"},
                            .norm = {.eps = c.layer_norm_epsilon},
                            .dropout = c.dropout_rate,
                            .clamps_half = true,
                            .attention_name = "layer.0.SelfAttention",
                            .cross_name = "layer.1.EncDecAttention",
                            .mlp_name = last + ".DenseReluDense",
                            .attention_norm = "layer.0.layer_norm",
                            .cross_norm = "layer.1.layer_norm",
                            .mlp_norm = last + ".layer_norm"};
  if (decodes) spec.cross = spec.attention;
  if (layer_idx == 0 || c.has_bias_in_each_layer()) {
    spec.attention.relative_bias = RelativeBiasSpec{.buckets = c.relative_attention_num_buckets,
                                                    .max_distance = c.relative_attention_max_distance,
                                                    .bidirectional = !decodes};
  }
  return spec;
}

LinearOptions head_options(const T5FamilyConfig& c, double stddev, const char* name) {
  return {.bias = true, .init_stddev = c.initializer_factor * stddev, .name = name};
}

BatchPart part_of(const std::optional<BatchPart>& part) { return part.value_or(BatchPart()); }

}  // namespace

T5Block::T5Block(const T5FamilyConfig& c, T5Part part, int64_t layer_idx)
    : TransformerBlock(t5_block(c, part, layer_idx)) {}

T5Stack::T5Stack(const T5FamilyConfig& c, T5Part part, const Embedding& shared)
    : dropout_(c.dropout_rate),
      shares_bias_(!c.has_bias_in_each_layer()),
      embed_tokens_(add<Embedding>("embed_tokens", Dim(c.vocab_size, LogicalAxis::Vocab), c.hidden_size)),
      block_(add<ModuleList<T5Block>>("block")),
      final_layer_norm_(add<RMSNorm>("final_layer_norm", c.hidden_size, c.layer_norm_epsilon)) {
  const int64_t layers = part == T5Part::Encoder ? c.num_hidden_layers : c.decoder_layers();
  for (int64_t i = 0; i < layers; ++i) block_.append(c, part, i);
  static_cast<Embedding*>(child("embed_tokens"))->tie_weight(shared.weight());
}

ModelOutput T5Stack::operator()(const BaseModule& model, const PreparedInputs& inputs,
                                const EncoderStates* states) const {
  const std::shared_ptr<ForwardContext> ctx = make_context(model, inputs);
  if (states) states->put_into(*ctx);
  if (shares_bias_ && block_.size() > 0) ctx->position_bias = block_[0].attention().position_bias(*ctx);
  const at::Tensor x_BTD = drop_embeddings(embed(inputs, embed_tokens_), dropout_, inputs);
  return run_stack(ctx, inputs, x_BTD, block_, [&](const at::Tensor& x) {
    const at::Tensor normed = final_layer_norm_(x);
    return inputs.dropout_key ? drop(normed, dropout_, inputs.dropout_key->fold("final"), part_of(inputs.part))
                              : normed;
  });
}

T5Stacks::T5Stacks(const T5FamilyConfig& c)
    : Seq2SeqModel(c),
      shared_(add<Embedding>("shared", Dim(c.vocab_size, LogicalAxis::Vocab), c.hidden_size, c.initializer_factor)),
      encoder_(add<T5Stack>("encoder", t5_config(), T5Part::Encoder, shared_)),
      decoder_(add<T5Stack>("decoder", t5_config(), T5Part::Decoder, shared_)) {}

ModelOutput T5Stacks::encoder_forward(const PreparedInputs& inputs) const { return encoder_(*this, inputs, nullptr); }

ModelOutput T5Stacks::decoder_forward(const PreparedInputs& inputs, const EncoderStates& states) const {
  return decoder_(*this, inputs, &states);
}

RightShift T5Stacks::right_shift() const { return {t5_config().decoder_start_token_id, config().pad_token_id}; }

T5LanguageModel::T5LanguageModel(const T5FamilyConfig& c)
    : T5Stacks(c),
      lm_head_(add<Linear>("lm_head", c.hidden_size, Dim(c.vocab_size, LogicalAxis::Vocab),
                           LinearOptions{.init_stddev = c.initializer_factor, .name = "lm_head"})) {
  lm_head_.tie_weight(embeddings().weight());
}

void T5LanguageModel::prepare_whole(PreparedInputs& inputs) const {
  shift_labels(inputs);
  T5Stacks::prepare_whole(inputs);
  if (inputs.decoder_mask_info) take_token_labels(*this, inputs.decoder_position_ids, inputs);
}

ModelOutput T5LanguageModel::forward(const PreparedInputs& inputs) const {
  ModelOutput out = T5Stacks::forward(inputs);
  const double scale = t5_config().scale_decoder_outputs ? root_of(config().hidden_size) : 1.0;
  add_token_outputs(*this, lm_head_, out.last_hidden_state, inputs, {.scale = scale}, out);
  return out;
}

T5QuestionAnswering::T5QuestionAnswering(const T5FamilyConfig& c)
    : T5Stacks(c),
      qa_outputs_(add<Linear>("qa_outputs", c.hidden_size, c.num_labels(),
                              head_options(c, root_of(c.hidden_size), "qa_outputs"))) {}

std::vector<std::string> T5QuestionAnswering::extra_inputs() const {
  std::vector<std::string> names = T5Stacks::extra_inputs();
  names.insert(names.end(), {"start_positions", "end_positions"});
  return names;
}

void T5QuestionAnswering::prepare_whole(PreparedInputs& inputs) const {
  T5Stacks::prepare_whole(inputs);
  take_span_labels(*this, inputs.position_ids.size(0), inputs);
}

ModelOutput T5QuestionAnswering::forward(const PreparedInputs& inputs) const {
  ModelOutput out = T5Stacks::forward(inputs);
  add_span_outputs(*this, qa_outputs_(out.last_hidden_state), inputs, part_of(inputs.decoder_part), out);
  return out;
}

T5SequenceClassification::T5SequenceClassification(const T5FamilyConfig& c)
    : Seq2SeqHead(c, "transformer"), dropout_(c.classifier_dropout) {
  set_base(add<T5Stacks>("transformer", c));
  dense_ = &add<Linear>("classification_head.dense", c.hidden_size, c.hidden_size,
                        head_options(c, root_of(c.hidden_size), "dense"));
  out_proj_ = &add<Linear>("classification_head.out_proj", c.hidden_size, c.num_labels(),
                           head_options(c, root_of(c.hidden_size), "score"));
}

void T5SequenceClassification::prepare_whole(PreparedInputs& inputs) const {
  inputs.last_tokens = last_end_tokens(*this, inputs);
  if (!inputs.decoder_input_ids.defined() && !inputs.decoder_inputs_embeds.defined()) {
    const auto& c = static_cast<const T5FamilyConfig&>(config());
    inputs.decoder_input_ids = shift_right(inputs.input_ids, {c.decoder_start_token_id, c.pad_token_id}, type_name());
  }
  base().prepare_whole(inputs);
  take_row_labels(*this, inputs.position_ids.size(0), inputs);
}

ModelOutput T5SequenceClassification::forward(const PreparedInputs& inputs) const {
  ModelOutput out = base().forward(inputs);
  const BatchPart part = part_of(inputs.decoder_part);
  const auto dropped = [&](const at::Tensor& x, const char* place) {
    return inputs.dropout_key ? drop_rows(x, dropout_, inputs.dropout_key->fold(place), part) : x;
  };
  out.logits = row_outputs(*this, out.last_hidden_state, inputs.last_tokens, part, [&](const at::Tensor& rows) {
    return (*out_proj_)(dropped(at::tanh((*dense_)(dropped(rows, "pooled"))), "dense"));
  });
  add_row_loss(*this, inputs, part, out);
  return out;
}

T5EncoderStack::T5EncoderStack(const T5FamilyConfig& c)
    : BaseModule(c),
      shared_(add<Embedding>("shared", Dim(c.vocab_size, LogicalAxis::Vocab), c.hidden_size, c.initializer_factor)),
      encoder_(add<T5Stack>("encoder", static_cast<const T5FamilyConfig&>(config()), T5Part::Encoder, shared_)) {}

ModelOutput T5EncoderStack::forward(const PreparedInputs& inputs) const {
  return encoder_(*this, encoder_inputs(inputs), nullptr);
}

T5TokenClassification::T5TokenClassification(const T5FamilyConfig& c)
    : BaseModule(c),
      dropout_(c.classifier_dropout),
      transformer_(add<T5EncoderStack>("transformer", c)),
      classifier_(add<Linear>("classifier", c.hidden_size, c.num_labels(), head_options(c, 1.0, "classifier"))) {}

void T5TokenClassification::prepare_whole(PreparedInputs& inputs) const {
  see_both_ways(inputs);
  take_token_labels(*this, inputs.position_ids, inputs);
}

ModelOutput T5TokenClassification::forward(const PreparedInputs& inputs) const {
  ModelOutput out = transformer_.forward(inputs);
  at::Tensor hidden = out.last_hidden_state;
  if (inputs.dropout_key) hidden = drop(hidden, dropout_, inputs.dropout_key->fold("classifier"), part_of(inputs.part));
  add_token_outputs(*this, classifier_, hidden, inputs, {}, out);
  return out;
}

}  // namespace easydel
