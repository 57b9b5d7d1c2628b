// What a model does by itself of generation.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/files/companions.h"

namespace easydel {

GenerationConfig BaseModule::generation_config() const {
  const Json& json = companions_->generation_config;
  return json.is_null() ? GenerationConfig::from_model_config(config())
                        : GenerationConfig::from_dict(json, companions_->generation_config_file);
}

BaseModule& BaseModule::set_generation_config(const GenerationConfig& config) {
  config.validate();
  Companions changed = *companions_;
  changed.generation_config = config.to_dict();
  changed.generation_config_file.clear();
  set_companions(std::make_shared<const Companions>(std::move(changed)));
  return *this;
}

GenerateOutput BaseModule::generate(const at::Tensor& input_ids) const { return easydel::generate(*this, input_ids); }

GenerateOutput BaseModule::generate(const at::Tensor& input_ids, const GenerateOptions& options) const {
  return easydel::generate(*this, input_ids, options);
}

ModelInputs BaseModule::prepare_inputs_for_generation(const at::Tensor& input_ids, int64_t max_length,
                                                      std::optional<int64_t> pad_token_id, const at::Tensor& starts,
                                                      const at::Tensor& attention_mask,
                                                      const at::Tensor& token_type_ids,
                                                      const std::optional<MaskInfo>& mask_info) const {
  ModelInputs inputs = easydel::prepare_inputs_for_generation(
      check_prompt(*this, input_ids, config().bos_token_id),
      {.attention_mask = attention_mask, .starts = starts, .token_type_ids = token_type_ids},
      pad_token_id ? pad_token_id : config().pad_token_id, config().eos_token_id);
  if (mask_info) {
    const bool grows = !mask_info->explicit_mask.defined() && !mask_info->q_segment_ids.defined() &&
                       !mask_info->kv_segment_ids.defined() && !mask_info->q_positions.defined() &&
                       !mask_info->q_offset;
    require<NotSupportedError>(grows,
                               "[prepare_inputs_for_generation] mask_info must consist of rules that apply to future "
                               "tokens: causal, sliding_window, padding_mask; got another one.");
    require<ConfigError>(!attention_mask.defined() && !starts.defined(),
                         "[prepare_inputs_for_generation] mask_info replaces attention_mask and starts; give one.");
    inputs.mask_info = mask_info;
    inputs.attention_mask.reset();
    inputs.position_ids.reset();
    if (mask_info->padding_mask.defined()) {
      const at::Tensor seen = mask_info->padding_mask.ne(0).to(at::kLong);
      inputs.position_ids = (seen.cumsum(-1) - 1).clamp_min(0);
    }
  }
  inputs.past_key_values = init_cache(inputs.input_ids.size(0), max_length);
  return inputs;
}

void BaseModule::update_inputs_for_generation(const ModelOutput& model_outputs, ModelInputs& model_kwargs,
                                              const at::Tensor& next_tokens) const {
  easydel::update_inputs_for_generation(model_outputs, model_kwargs,
                                        next_tokens.dim() == 1 ? next_tokens.unsqueeze(1) : next_tokens);
}

}  // namespace easydel
