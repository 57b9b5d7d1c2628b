#include "easydel/infra/encoder/seq2seq_inputs.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/parallel/batch_part.h"
#include "easydel/sharding/collectives/weight_prefetcher.h"

namespace easydel {
namespace {

bool is_speech_model(const BaseModule& model) { return model.main_input_name() == "input_features"; }

const at::Tensor& encoder_input(const ModelInputs& in) {
  return in.input_ids.defined()        ? in.input_ids
         : in.inputs_embeds.defined()  ? in.inputs_embeds
         : in.input_features.defined() ? in.input_features
                                       : in.encoder_outputs;
}

// Two frames of sound become one token.
int64_t encoder_tokens(const ModelInputs& in) {
  return in.input_features.defined() ? (in.input_features.size(2) + 1) / 2 : encoder_input(in).size(1);
}

void check_sound(const BaseModule& model, const ModelInputs& in) {
  require<ConfigError>(in.input_features.defined() != in.encoder_outputs.defined(),
                       "[forward] exactly one of input_features and encoder_outputs is needed; got ",
                       in.input_features.defined() ? "both" : "neither", ".");
  const std::pair<const char*, bool> refused[] = {{"input_ids", in.input_ids.defined()},
                                                  {"inputs_embeds", in.inputs_embeds.defined()},
                                                  {"attention_mask", in.attention_mask.defined()}};
  for (const auto& [name, is_given] : refused) {
    require<ConfigError>(!is_given, "[forward] ", model.type_name(), " does not accept ", name,
                         "; use input_features, which need no mask.");
  }
  if (!in.input_features.defined()) return;
  require<ShapeError>(in.input_features.dim() == 3 && in.input_features.is_floating_point(),
                      "[forward] input_features must be floats [batch, mel features, frames]; got ",
                      in.input_features.sizes(), " of ", c10::toString(in.input_features.scalar_type()), ".");
}

const at::Tensor& decoder_input(const ModelInputs& in) {
  return in.decoder_input_ids.defined() ? in.decoder_input_ids : in.decoder_inputs_embeds;
}

void check_ids(const at::Tensor& ids, const char* name) {
  if (!ids.defined()) return;
  require<ShapeError>(ids.dim() == 2, "[forward] ", name, " must be [batch, tokens]; got ", ids.sizes(), ".");
  require<ShapeError>(at::isIntegralType(ids.scalar_type(), false), "[forward] ", name, " must be integers; got ",
                      c10::toString(ids.scalar_type()), ".");
}

void check_hidden(const at::Tensor& x, const char* name, int64_t features) {
  require<ShapeError>(!x.defined() || (x.dim() == 3 && x.size(2) == features), "[forward] ", name,
                      " must be [batch, tokens, ", features, "]; got ", x.defined() ? x.sizes() : at::IntArrayRef(),
                      ".");
}

void check_mask(const at::Tensor& mask, const char* name, int64_t rows, int64_t keys) {
  require<ShapeError>(!mask.defined() || (mask.dim() == 2 && mask.size(0) == rows && mask.size(1) == keys),
                      "[forward] ", name, " must be [", rows, ", ", keys, "]; got ",
                      mask.defined() ? mask.sizes() : at::IntArrayRef(), ".");
}

MaskInfo padding(const at::Tensor& mask, bool causal) {
  MaskInfo info;
  info.causal = causal;
  info.padding_mask = mask;
  return info.simplified();
}

at::Tensor counted(const at::Tensor& like, int64_t first, int64_t tokens) {
  return at::arange(first, first + tokens, like.options().dtype(at::kLong)).unsqueeze(0).expand({like.size(0), tokens});
}

}  // namespace

bool is_seq2seq(const BaseModule& model) {
  const std::vector<std::string> taken = model.extra_inputs();
  return std::find(taken.begin(), taken.end(), "decoder_input_ids") != taken.end();
}

void check_seq2seq_inputs(const BaseModule& model, const ModelInputs& in) {
  const int given = int{in.input_ids.defined()} + int{in.inputs_embeds.defined()} + int{in.encoder_outputs.defined()};
  if (is_speech_model(model)) check_sound(model, in);
  require<ConfigError>(is_speech_model(model) || given == 1,
                       "[forward] exactly one of input_ids, inputs_embeds and encoder_outputs is needed; got ",
                       given == 0 ? "none" : "several", ".");
  const std::pair<const char*, bool> refused[] = {{"position_ids", in.position_ids.defined()},
                                                  {"segment_ids", in.segment_ids.defined()},
                                                  {"token_type_ids", in.token_type_ids.defined()},
                                                  {"mask_info", in.mask_info.has_value()}};
  for (const auto& [name, is_given] : refused) {
    require<NotSupportedError>(!is_given, "[forward] ", model.type_name(), " does not accept ", name,
                               "; set attention_mask and decoder_attention_mask for padding.");
  }
  check_ids(in.input_ids, "input_ids");
  check_ids(in.decoder_input_ids, "decoder_input_ids");
  const int64_t features = model.config().hidden_size;
  check_hidden(in.inputs_embeds, "inputs_embeds", features);
  check_hidden(in.encoder_outputs, "encoder_outputs", features);
  check_hidden(in.decoder_inputs_embeds, "decoder_inputs_embeds", features);
  const int64_t rows = encoder_input(in).size(0);
  check_mask(in.attention_mask, "attention_mask", rows, encoder_tokens(in));
  require<ConfigError>(!in.decoder_input_ids.defined() || !in.decoder_inputs_embeds.defined(),
                       "[forward] decoder_input_ids and decoder_inputs_embeds are mutually exclusive; got both.");
  if (const at::Tensor& decoder = decoder_input(in); decoder.defined()) {
    require<ShapeError>(decoder.size(0) == rows, "[forward] the decoder must have as many rows as the encoder; got ",
                        decoder.size(0), " and ", rows, ".");
    const int64_t past = in.past_key_values ? in.past_key_values->length() : 0;
    check_mask(in.decoder_attention_mask, "decoder_attention_mask", rows, past + decoder.size(1));
  }
  require<Error>(!model.is_lazy(), "[forward] ", model.type_name(),
                 " has no weights yet: it was created by lazy_init. Load them or call initialize.");
}

PreparedInputs prepare_seq2seq_inputs(const BaseModule& model, ModelInputs user_inputs) {
  PreparedInputs inputs(std::move(user_inputs));
  inputs.position_ids = counted(encoder_input(inputs), 0, encoder_tokens(inputs));
  inputs.mask_info = padding(inputs.attention_mask, /*causal=*/false);
  model.prepare_whole(inputs);
  if (!model.parallel()) return inputs;
  return take_part(std::move(inputs), *model.parallel(), is_token_task(model.model_task()));
}

at::Tensor shift_right(const at::Tensor& ids, const RightShift& shift, const std::string& where) {
  require<ConfigError>(shift.wraps_last || shift.decoder_start_token_id.has_value(), "[", where,
                       "] decoder_start_token_id must be in the config to derive decoder_input_ids; it is not.");
  require<ConfigError>(shift.pad_token_id.has_value(), "[", where,
                       "] pad_token_id must be in the config to derive decoder_input_ids; it is not.");
  const at::Tensor filled = ids.masked_fill(ids.eq(-100), *shift.pad_token_id);
  const at::Tensor last = (filled.ne(*shift.pad_token_id).sum(1, /*keepdim=*/true) - 1).clamp_min(0);
  const at::Tensor first = shift.wraps_last ? filled.gather(1, last)
                                            : at::full({ids.size(0), 1}, *shift.decoder_start_token_id, ids.options());
  return at::cat({first, filled.narrow(1, 0, ids.size(1) - 1)}, 1);
}

void prepare_decoder(const BaseModule& model, PreparedInputs& in, const RightShift& shift, bool from_inputs) {
  if (!decoder_input(in).defined() && from_inputs && in.input_ids.defined() && in.input_ids.size(1) > 0)
    in.decoder_input_ids = shift_right(in.input_ids, shift, model.type_name());
  const at::Tensor& decoder = decoder_input(in);
  if (!decoder.defined()) return;
  in.decoder_position_ids = counted(decoder, in.past_key_values ? in.past_key_values->length() : 0, decoder.size(1));
  in.decoder_mask_info = padding(in.decoder_attention_mask, /*causal=*/true);
  in.cross_mask_info = padding(in.attention_mask, /*causal=*/false);
}

PreparedInputs encoder_inputs(const PreparedInputs& given) {
  PreparedInputs in = given;
  in.past_key_values = nullptr;
  in.cache_metadata = nullptr;
  if (in.dropout_key) in.dropout_key = in.dropout_key->fold("encoder");
  return in;
}

PreparedInputs decoder_inputs(const PreparedInputs& given) {
  PreparedInputs in = given;
  in.input_ids = given.decoder_input_ids;
  in.inputs_embeds = given.decoder_inputs_embeds;
  in.position_ids = given.decoder_position_ids;
  in.mask_info = given.decoder_mask_info;
  in.part = given.decoder_part;
  return in;
}

void see_both_ways(PreparedInputs& inputs) {
  if (!inputs.mask_info->causal) return;
  inputs.mask_info->causal = false;
  inputs.mask_info->memory = MaskInfo::make_memory();
}

at::Tensor run_encoder(const BaseModule& model, const ModelInputs& inputs) {
  check_seq2seq_inputs(model, inputs);
  if (model.parallel()) model.parallel()->prefetcher().begin_step();
  const PreparedInputs prepared = prepare_seq2seq_inputs(model, inputs);
  const at::Tensor hidden = model.encode(prepared).last_hidden_state;
  return model.parallel() ? gather_tokens(hidden, *prepared.part, *model.parallel()) : hidden;
}

}  // namespace easydel
