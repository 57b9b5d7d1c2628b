#include "easydel/generation/seq2seq_step.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/infra/encoder/seq2seq_inputs.h"

namespace easydel {
namespace {

class Seq2SeqStep final : public DecodeStep {
 public:
  Seq2SeqStep(const BaseModule& module, ModelInputs inputs) : module_(module), inputs_(std::move(inputs)) {}

  at::Tensor prefill() override {
    if (inputs_.past_key_values || !module_.parallel()) inputs_.logits_to_keep = 1;
    return run();
  }
  at::Tensor next(const at::Tensor& tokens_B) override {
    const at::Tensor column = tokens_B.unsqueeze(1);
    inputs_.decoder_input_ids = inputs_.past_key_values ? column : at::cat({inputs_.decoder_input_ids, column}, 1);
    return run();
  }
  // Rows of one prompt have the same encoder, so its states and its mask stay where they are.
  void reorder(const at::Tensor& rows_B) override {
    inputs_.decoder_input_ids = inputs_.decoder_input_ids.index_select(0, rows_B);
    if (inputs_.past_key_values) inputs_.past_key_values->reorder(rows_B);
  }

 private:
  at::Tensor run() {
    const at::Tensor logits = module_(inputs_).logits;
    return logits.select(1, logits.size(1) - 1).to(at::kFloat, false, /*copy=*/true);
  }

  const BaseModule& module_;
  ModelInputs inputs_;
};

at::Tensor no_mask(const PromptInputs& given) {
  const bool any = given.attention_mask.defined() || given.starts.defined() || given.position_ids.defined() ||
                   given.token_type_ids.defined() || given.pixel_values.defined() ||
                   given.pixel_values_videos.defined();
  require<NotSupportedError>(!any, "[generate] a speech model takes no inputs other than input_features.");
  return {};
}

at::Tensor encoder_mask(const at::Tensor& ids, const PromptInputs& given, std::optional<int64_t> pad_token_id,
                        const TokenIds& eos_token_id) {
  require<NotSupportedError>(!given.position_ids.defined() && !given.token_type_ids.defined(),
                             "[generate] an encoder-decoder takes no position_ids and no token_type_ids.");
  at::Tensor mask = given.attention_mask;
  if (given.starts.defined()) {
    require<ShapeError>(!mask.defined() && given.starts.sizes() == ids.sizes().slice(0, 1),
                        "[generate] starts must be [", ids.size(0), "], without an attention_mask; got ",
                        given.starts.sizes(), mask.defined() ? " and a mask." : ".");
    mask = at::arange(ids.size(1), ids.options()).ge(given.starts.to(ids.device()).unsqueeze(1));
  }
  if (!mask.defined() && pad_token_id && !eos_token_id.contains(*pad_token_id)) mask = ids.ne(*pad_token_id);
  if (!mask.defined()) return mask;
  require<ShapeError>(mask.sizes() == ids.sizes(), "[generate] attention_mask must be ", ids.sizes(),
                      " like input_ids; got ", mask.sizes(), ".");
  mask = mask.to(ids.device()).ne(0).to(at::kLong);
  if (mask.eq(1).all().item<bool>()) mask.reset();
  return mask;
}

}  // namespace

at::Tensor check_sound(const BaseModule& module, const at::Tensor& input_features) {
  at::Tensor features = input_features;
  if (features.defined() && features.dim() == 2) features = features.unsqueeze(0);
  require<ShapeError>(features.defined() && features.dim() == 3 && features.is_floating_point() && features.size(0) > 0,
                      "[generate] ", module.type_name(),
                      " needs input_features, floats [batch, mel features, frames]; got ",
                      features.defined() ? concat(features.sizes(), " of ", c10::toString(features.scalar_type()))
                                         : std::string("none"),
                      ".");
  return features.to(module.options().device);
}

at::Tensor decoder_start(const GenerationConfig& config, const at::Tensor& main_input, int64_t vocab_size) {
  const std::optional<int64_t> start =
      config.decoder_start_token_id ? config.decoder_start_token_id : config.bos_token_id;
  require<ConfigError>(start.has_value(),
                       "[generate] an encoder-decoder needs a decoder_start_token_id or a bos_token_id; the config has "
                       "neither.");
  require<ConfigError>(*start >= 0 && *start < vocab_size, "[GenerationConfig] decoder_start_token_id must lie in [0, ",
                       vocab_size, "); got ", *start, ".");
  return at::full({main_input.size(0), 1}, *start, main_input.options().dtype(at::kLong));
}

ModelInputs prepare_seq2seq_generation(const BaseModule& model, const at::Tensor& main_input,
                                       const at::Tensor& decoder_ids, const PromptInputs& given,
                                       std::optional<int64_t> pad_token_id, const TokenIds& eos_token_id,
                                       int64_t copies, const at::Tensor& encoder_states) {
  const bool is_speech = main_input.is_floating_point();
  const at::Tensor mask = is_speech ? no_mask(given) : encoder_mask(main_input, given, pad_token_id, eos_token_id);
  ModelInputs encoder{.attention_mask = mask};
  (is_speech ? encoder.input_features : encoder.input_ids) = main_input;
  encoder.output_attentions = encoder.output_hidden_states = false;
  const auto repeated = [&](const at::Tensor& tensor) {
    return tensor.defined() && copies > 1 ? tensor.repeat_interleave(copies, 0) : tensor;
  };
  ModelInputs inputs;
  inputs.encoder_outputs = repeated(encoder_states.defined() ? encoder_states : run_encoder(model, encoder));
  inputs.attention_mask = repeated(mask);
  inputs.decoder_input_ids = repeated(decoder_ids);
  inputs.output_attentions = inputs.output_hidden_states = inputs.output_router_logits = false;
  return inputs;
}

std::unique_ptr<DecodeStep> make_seq2seq_step(const BaseModule& module, ModelInputs inputs, bool use_cache,
                                              int64_t max_length) {
  if (use_cache) inputs.past_key_values = module.init_cache(inputs.decoder_input_ids.size(0), max_length);
  return std::make_unique<Seq2SeqStep>(module, std::move(inputs));
}

}  // namespace easydel
