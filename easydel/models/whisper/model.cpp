// Letters: B batch, T tokens, D hidden, F mel features.
#include "easydel/models/whisper/model.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/infra/heads/row_head.h"
#include "easydel/infra/heads/token_head.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

constexpr double kWhisperNormEps = 1e-5;

TransformerBlockSpec whisper_layer(const WhisperConfig& c, WhisperPart part, int64_t layer_idx) {
  const bool decodes = part == WhisperPart::Decoder;
  const int64_t heads = decodes ? c.decoder_attention_heads : c.num_attention_heads;
  TransformerBlockSpec spec{.attention = {.hidden_size = c.hidden_size,
                                          .num_heads = heads,
                                          .num_kv_heads = heads,
                                          .head_dim = c.hidden_size / heads,
                                          .layer_idx = layer_idx,
                                          .qkv_bias = true,
                                          .k_bias = false,
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
                            .norm = {.kind = NormSpec::Kind::Layer, .eps = kWhisperNormEps},
                            .dropout = c.dropout,
                            .clamps_half = !decodes,
                            .mlp_name = ""};
  if (decodes) spec.cross = spec.attention;
  return spec;
}

void refuse_layerdrop(const BaseModule& model, const PreparedInputs& inputs, double share) {
  require<NotSupportedError>(share == 0 || !inputs.dropout_key, "[", model.type_name(),
                             "] encoder_layerdrop and decoder_layerdrop are not supported in training; got ", share,
                             ". Set them to 0.");
}

}  // namespace

WhisperLayer::WhisperLayer(const WhisperConfig& c, WhisperPart part, int64_t layer_idx)
    : TransformerBlock(whisper_layer(c, part, layer_idx)) {}

WhisperEncoder::WhisperEncoder(const WhisperConfig& c)
    : mel_bins_(c.num_mel_bins),
      frames_(c.frames()),
      dropout_(c.dropout),
      layerdrop_(c.encoder_layerdrop),
      augments_(c.apply_spec_augment),
      conv1_(add<Conv1d>(
          "conv1",
          Conv1dSpec{.in = c.num_mel_bins, .out = c.hidden_size, .padding = 1, .init_stddev = c.initializer_range})),
      conv2_(add<Conv1d>("conv2", Conv1dSpec{.in = c.hidden_size,
                                             .out = c.hidden_size,
                                             .stride = 2,
                                             .padding = 1,
                                             .init_stddev = c.initializer_range})),
      embed_positions_(add<SinusoidalPositions>("embed_positions", c.max_source_positions, c.hidden_size)),
      layers_(add<ModuleList<WhisperLayer>>("layers")),
      layer_norm_(add<LayerNorm>("layer_norm", c.hidden_size, kWhisperNormEps)) {
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.append(c, WhisperPart::Encoder, i);
}

void WhisperEncoder::check(const BaseModule& model, const ModelInputs& inputs) const {
  const at::Tensor& features = inputs.input_features;
  if (!features.defined()) return;
  require<ShapeError>(features.size(1) == mel_bins_ && features.size(2) == frames_,
                      "[forward] input_features must be [batch, ", mel_bins_, ", ", frames_,
                      "] (num_mel_bins and twice max_source_positions); got ", features.sizes(),
                      ". Pad or truncate the audio.");
  require<NotSupportedError>(!augments_ || !inputs.dropout_key, "[", model.type_name(),
                             "] apply_spec_augment is not supported in training; got true. Set it to false.");
}

ModelOutput WhisperEncoder::operator()(const BaseModule& model, const PreparedInputs& inputs) const {
  refuse_layerdrop(model, inputs, layerdrop_);
  at::Tensor x_BTD = at::gelu(conv2_(at::gelu(conv1_(inputs.input_features.to(dtype()))))).transpose(1, 2);
  if (inputs.part) {  // a rank's own tokens, of the sound of all
    const int64_t missing = inputs.part->tokens - x_BTD.size(1);
    if (missing > 0) x_BTD = at::constant_pad_nd(x_BTD, {0, 0, 0, missing});
    x_BTD = x_BTD.narrow(1, inputs.part->first_token, inputs.position_ids.size(1));
  }
  x_BTD = x_BTD + embed_positions_(inputs.position_ids);
  return run_stack(make_context(model, inputs), inputs, drop_embeddings(x_BTD, dropout_, inputs), layers_, layer_norm_);
}

WhisperDecoder::WhisperDecoder(const WhisperConfig& c)
    : dropout_(c.dropout),
      layerdrop_(c.decoder_layerdrop),
      embed_tokens_(
          add<Embedding>("embed_tokens", Dim(c.vocab_size, LogicalAxis::Vocab), c.hidden_size, c.initializer_range)),
      embed_positions_(
          add<Embedding>("embed_positions", c.max_position_embeddings, c.hidden_size, c.initializer_range)),
      layers_(add<ModuleList<WhisperLayer>>("layers")),
      layer_norm_(add<LayerNorm>("layer_norm", c.hidden_size, kWhisperNormEps)) {
  static_cast<Embedding*>(child("embed_tokens"))->set_padding(c.pad_token_id);
  for (int64_t i = 0; i < c.decoder_layers; ++i) layers_.append(c, WhisperPart::Decoder, i);
}

ModelOutput WhisperDecoder::operator()(const BaseModule& model, const PreparedInputs& inputs,
                                       const EncoderStates& states) const {
  refuse_layerdrop(model, inputs, layerdrop_);
  const std::shared_ptr<ForwardContext> ctx = make_context(model, inputs);
  states.put_into(*ctx);
  const at::Tensor x_BTD = embed(inputs, embed_tokens_) + embed_positions_(inputs.position_ids);
  return run_stack(ctx, inputs, drop_embeddings(x_BTD, dropout_, inputs), layers_, layer_norm_);
}

WhisperModel::WhisperModel(const WhisperConfig& c)
    : Seq2SeqModel(c), encoder_(add<WhisperEncoder>("encoder", c)), decoder_(add<WhisperDecoder>("decoder", c)) {}

std::vector<std::string> WhisperModel::extra_inputs() const {
  std::vector<std::string> names = Seq2SeqModel::extra_inputs();
  names.push_back("input_features");
  return names;
}

void WhisperModel::prepare_whole(PreparedInputs& inputs) const {
  encoder_.check(*this, inputs);
  Seq2SeqModel::prepare_whole(inputs);
  if (!inputs.decoder_mask_info) return;
  const int64_t past = inputs.past_key_values ? inputs.past_key_values->length() : 0;
  const int64_t tokens = past + inputs.decoder_position_ids.size(1);
  require<ShapeError>(tokens <= config().max_position_embeddings, "[forward] a text may have at most ",
                      config().max_position_embeddings, " tokens (max_target_positions); got ", tokens, ".");
}

ModelOutput WhisperModel::encoder_forward(const PreparedInputs& inputs) const { return encoder_(*this, inputs); }

ModelOutput WhisperModel::decoder_forward(const PreparedInputs& inputs, const EncoderStates& states) const {
  return decoder_(*this, inputs, states);
}

RightShift WhisperModel::right_shift() const {
  return {static_cast<const WhisperConfig&>(config()).decoder_start_token_id, config().pad_token_id};
}

WhisperForConditionalGeneration::WhisperForConditionalGeneration(const WhisperConfig& c) : Seq2SeqHead(c, "model") {
  const WhisperModel& base = add<WhisperModel>("model", c);
  set_base(base);
  proj_out_ = &add<Linear>("proj_out", c.hidden_size, Dim(c.vocab_size, LogicalAxis::Vocab),
                           LinearOptions{.init_stddev = c.initializer_range, .name = "lm_head"});
  if (c.tie_word_embeddings) proj_out_->tie_weight(base.embeddings().weight());
}

void WhisperForConditionalGeneration::prepare_whole(PreparedInputs& inputs) const {
  base().shift_labels(inputs);
  base().prepare_whole(inputs);
  if (inputs.decoder_mask_info) take_token_labels(*this, inputs.decoder_position_ids, inputs);
}

ModelOutput WhisperForConditionalGeneration::forward(const PreparedInputs& inputs) const {
  ModelOutput out = base().forward(inputs);
  add_token_outputs(*this, *proj_out_, out.last_hidden_state, inputs, {}, out);
  return out;
}

WhisperForAudioClassification::WhisperForAudioClassification(const WhisperConfig& c)
    : BaseModule(c), encoder_(add<WhisperEncoder>("encoder", c)) {
  if (c.use_weighted_layer_sum) {
    const int64_t states = c.num_hidden_layers + 1;
    layer_weights_ = add_parameter("layer_weights", {Dim(states)},
                                   Initializer{Initializer::Kind::Constant, 1.0 / static_cast<double>(states)});
  }
  projector_ = &add<Linear>("projector", c.hidden_size, c.classifier_proj_size,
                            LinearOptions{.bias = true, .init_stddev = c.initializer_range, .name = "projector"});
  classifier_ = &add<Linear>("classifier", c.classifier_proj_size, c.num_labels(),
                             LinearOptions{.bias = true, .init_stddev = c.initializer_range, .name = "score"});
}

void WhisperForAudioClassification::prepare_whole(PreparedInputs& inputs) const {
  encoder_.check(*this, inputs);
  take_row_labels(*this, inputs.position_ids.size(0), inputs);
}

ModelOutput WhisperForAudioClassification::forward(const PreparedInputs& inputs) const {
  require<NotSupportedError>(
      !parallel() || parallel()->mesh().size(parallel()->sequence()) == 1, "[forward] ", type_name(),
      " reads the mean of all tokens, which are not split over the axes of the "
      "sequence; got ",
      parallel() ? parallel()->mesh().size(parallel()->sequence()) : 1, " parts. Use dp, fsdp or tp.");
  PreparedInputs own = inputs;
  if (layer_weights_) own.output_hidden_states = true;
  ModelOutput out = encoder_(*this, own);
  at::Tensor hidden = out.last_hidden_state;
  if (layer_weights_) {
    const at::Tensor weights =
        collectives::gather_weight(layer_weights_->value(), dtype(), layer_weights_->sharding()).softmax(-1);
    hidden = (at::stack(out.hidden_states, 1) * weights.view({-1, 1, 1})).sum(1);
    if (!inputs.output_hidden_states.value_or(config().output_hidden_states)) out.hidden_states.clear();
  }
  out.logits = (*classifier_)((*projector_)(hidden).mean(1));
  out.last_hidden_state.reset();
  add_row_loss(*this, inputs, inputs.part.value_or(BatchPart()), out);
  return out;
}

}  // namespace easydel
