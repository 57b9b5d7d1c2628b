// Letters: B batch, T tokens, D hidden.
#include "easydel/models/bart/model.h"

#include <ATen/ATen.h>

#include <cmath>

#include "easydel/core/error.h"
#include "easydel/infra/heads/row_head.h"
#include "easydel/infra/heads/token_head.h"
#include "easydel/layers/sinusoids.h"

namespace easydel {
namespace {

constexpr int64_t kPositionOffset = 2;  // the table has two rows in front that no position reads
constexpr double kNormEps = 1e-5;

TransformerBlockSpec bart_layer(const BartFamilyConfig& c, BartPart part, int64_t layer_idx) {
  const bool decodes = part == BartPart::Decoder;
  const int64_t heads = decodes ? c.decoder_attention_heads : c.num_attention_heads;
  TransformerBlockSpec spec{.attention = {.hidden_size = c.hidden_size,
                                          .num_heads = heads,
                                          .num_kv_heads = heads,
                                          .head_dim = c.hidden_size / heads,
                                          .layer_idx = layer_idx,
                                          .qkv_bias = true,
                                          .out_bias = true,
                                          .cached = decodes,
                                          .rope = std::nullopt,
                                          .dropout = c.attention_dropout,
                                          .init_stddev = c.initializer_range,
                                          .out_name = "out_proj"},
                            .mlp = {.hidden_size = c.hidden_size,
                                    .intermediate_size = decodes ? c.decoder_ffn_dim : c.intermediate_size,
                                    .act = c.hidden_act,
                                    .gated = false,
                                    .bias = true,
                                    .dropout = c.activation_dropout,
                                    .layer_idx = layer_idx,
                                    .init_stddev = c.initializer_range,
                                    .up_name = "fc1",
                                    .down_name = "fc2"},
                            .norm = {.kind = NormSpec::Kind::Layer, .eps = kNormEps},
                            .post_norm = c.has_post_norm(),
                            .dropout = c.dropout,
                            .mlp_name = ""};
  if (decodes) spec.cross = spec.attention;
  return spec;
}

LinearOptions bart_head(const BartFamilyConfig& c, const char* name) {
  return {.bias = true, .init_stddev = c.initializer_range, .name = name};
}

}  // namespace

std::vector<std::string> BartFileNames::older_names(const std::string& path) const {
  for (const std::string_view stack : {"encoder.", "decoder."}) {
    if (path.ends_with(concat(stack, "embed_tokens.weight"))) return {"model.shared.weight", "shared.weight"};
  }
  return {};
}

BartLayer::BartLayer(const BartFamilyConfig& c, BartPart part, int64_t layer_idx)
    : TransformerBlock(bart_layer(c, part, layer_idx)) {}

BartStack::BartStack(const BartFamilyConfig& c, BartPart part, const Embedding& shared)
    : dropout_(c.dropout),
      layerdrop_(part == BartPart::Encoder ? c.encoder_layerdrop : c.decoder_layerdrop),
      scale_(c.scale_embedding ? std::sqrt(static_cast<double>(c.hidden_size)) : 1.0),
      embed_tokens_(
          add<Embedding>("embed_tokens", Dim(c.vocab_size, LogicalAxis::Vocab), c.hidden_size, c.initializer_range)),
      first_position_(c.has_sinusoids() ? 0 : kPositionOffset),
      embed_positions_(add_positions(c)),
      layers_(add<ModuleList<BartLayer>>("layers")) {
  const NormSpec norm{.kind = NormSpec::Kind::Layer, .eps = kNormEps};
  if (!c.has_sinusoids()) layernorm_embedding_ = add_norm(*this, "layernorm_embedding", c.hidden_size, norm);
  auto* table = static_cast<Embedding*>(child("embed_tokens"));
  if (c.tie_word_embeddings) table->tie_weight(shared.weight());
  table->set_padding(c.pad_token_id);
  const int64_t layers = part == BartPart::Encoder ? c.num_hidden_layers : c.decoder_layers;
  for (int64_t i = 0; i < layers; ++i) layers_.append(c, part, i);
  if (!c.has_post_norm()) layer_norm_ = add_norm(*this, "layer_norm", c.hidden_size, norm);
}

const Embedding& BartStack::add_positions(const BartFamilyConfig& c) {
  if (c.has_sinusoids())
    return add<SinusoidalPositions>("embed_positions", c.max_position_embeddings, c.hidden_size,
                                    SlowestFrequency::Next);
  return add<Embedding>("embed_positions", c.max_position_embeddings + kPositionOffset, c.hidden_size,
                        c.initializer_range);
}

ModelOutput BartStack::operator()(const BaseModule& model, const PreparedInputs& inputs,
                                  const EncoderStates* states) const {
  require<NotSupportedError>(layerdrop_ == 0 || !inputs.dropout_key, "[", model.type_name(),
                             "] encoder_layerdrop and decoder_layerdrop are not supported in training; got ",
                             layerdrop_, ". Set them to 0.");
  const std::shared_ptr<ForwardContext> ctx = make_context(model, inputs);
  if (states) states->put_into(*ctx);
  const at::Tensor x_BTD =
      embed(inputs, embed_tokens_, scale_) + embed_positions_(inputs.position_ids + first_position_);
  const at::Tensor read_BTD = layernorm_embedding_ ? (*layernorm_embedding_)(x_BTD) : x_BTD;
  return run_stack(ctx, inputs, drop_embeddings(read_BTD, dropout_, inputs), layers_,
                   [&](const at::Tensor& x) { return layer_norm_ ? (*layer_norm_)(x) : x; });
}

BartStacks::BartStacks(const BartFamilyConfig& c)
    : Seq2SeqModel(c),
      shared_(add<Embedding>("shared", Dim(c.vocab_size, LogicalAxis::Vocab), c.hidden_size, c.initializer_range)),
      encoder_(add<BartStack>("encoder", c, BartPart::Encoder, shared_)),
      decoder_(add<BartStack>("decoder", c, BartPart::Decoder, shared_)) {}

ModelOutput BartStacks::encoder_forward(const PreparedInputs& inputs) const { return encoder_(*this, inputs, nullptr); }

ModelOutput BartStacks::decoder_forward(const PreparedInputs& inputs, const EncoderStates& states) const {
  return decoder_(*this, inputs, &states);
}

RightShift BartStacks::right_shift() const {
  return {bart().decoder_start_token_id, config().pad_token_id, bart().wraps_last_token()};
}

BartLanguageModel::BartLanguageModel(const BartFamilyConfig& c) : Seq2SeqHead(c, "model") {
  const BartStacks& base = add<BartStacks>("model", c);
  set_base(base);
  lm_head_ = &add<Linear>("lm_head", c.hidden_size, Dim(c.vocab_size, LogicalAxis::Vocab),
                          LinearOptions{.init_stddev = c.initializer_range, .name = "lm_head"});
  if (c.tie_word_embeddings) lm_head_->tie_weight(base.embeddings().weight());
  final_logits_bias_ =
      add_parameter("final_logits_bias", {Dim(1), Dim(c.vocab_size, LogicalAxis::Vocab)}, Initializer::zeros());
  final_logits_bias_->trainable = false;
}

void BartLanguageModel::prepare_whole(PreparedInputs& inputs) const {
  base().shift_labels(inputs);
  base().prepare_whole(inputs);
  if (inputs.decoder_mask_info) take_token_labels(*this, inputs.decoder_position_ids, inputs);
}

ModelOutput BartLanguageModel::forward(const PreparedInputs& inputs) const {
  ModelOutput out = base().forward(inputs);
  add_token_outputs(*this, *lm_head_, out.last_hidden_state, inputs,
                    {.bias = own_part(final_logits_bias_, out.last_hidden_state.scalar_type())}, out);
  return out;
}

BartQuestionAnswering::BartQuestionAnswering(const BartFamilyConfig& c) : Seq2SeqHead(c, "model") {
  set_base(add<BartStacks>("model", c));
  qa_outputs_ = &add<Linear>("qa_outputs", c.hidden_size, 2, bart_head(c, "qa_outputs"));
}

std::vector<std::string> BartQuestionAnswering::extra_inputs() const {
  std::vector<std::string> names = Seq2SeqHead::extra_inputs();
  names.insert(names.end(), {"start_positions", "end_positions"});
  return names;
}

void BartQuestionAnswering::prepare_whole(PreparedInputs& inputs) const {
  base().prepare_whole(inputs);
  take_span_labels(*this, inputs.position_ids.size(0), inputs);
}

ModelOutput BartQuestionAnswering::forward(const PreparedInputs& inputs) const {
  ModelOutput out = base().forward(inputs);
  add_span_outputs(*this, (*qa_outputs_)(out.last_hidden_state), inputs, inputs.decoder_part.value_or(BatchPart()),
                   out);
  return out;
}

BartSequenceClassification::BartSequenceClassification(const BartFamilyConfig& c)
    : Seq2SeqHead(c, "model"), dropout_(c.classifier_dropout) {
  set_base(add<BartStacks>("model", c));
  dense_ = &add<Linear>("classification_head.dense", c.hidden_size, c.hidden_size, bart_head(c, "dense"));
  out_proj_ = &add<Linear>("classification_head.out_proj", c.hidden_size, c.num_labels(), bart_head(c, "score"));
}

void BartSequenceClassification::prepare_whole(PreparedInputs& inputs) const {
  inputs.last_tokens = last_end_tokens(*this, inputs);
  base().prepare_whole(inputs);
  take_row_labels(*this, inputs.position_ids.size(0), inputs);
}

ModelOutput BartSequenceClassification::forward(const PreparedInputs& inputs) const {
  ModelOutput out = base().forward(inputs);
  const BatchPart part = inputs.decoder_part.value_or(BatchPart());
  const auto dropped = [&](const at::Tensor& x, const char* place) {
    return inputs.dropout_key ? drop_rows(x, dropout_, inputs.dropout_key->fold(place), part) : x;
  };
  out.logits = row_outputs(*this, out.last_hidden_state, inputs.last_tokens, part, [&](const at::Tensor& rows) {
    return (*out_proj_)(dropped(at::tanh((*dense_)(dropped(rows, "pooled"))), "dense"));
  });
  add_row_loss(*this, inputs, part, out);
  return out;
}

}  // namespace easydel
