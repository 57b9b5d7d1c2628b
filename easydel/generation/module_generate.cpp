// What a model does by itself of generation.
#include "easydel/generation/generate.h"
#include "easydel/infra/base_module.h"

namespace easydel {

GenerateOutput BaseModule::generate(const at::Tensor& input_ids) const { return easydel::generate(*this, input_ids); }

GenerateOutput BaseModule::generate(const at::Tensor& input_ids, const GenerateOptions& options) const {
  return easydel::generate(*this, input_ids, options);
}

ModelInputs BaseModule::prepare_inputs_for_generation(const at::Tensor& input_ids, int64_t max_length,
                                                      std::optional<int64_t> pad_token_id, const at::Tensor& starts,
                                                      const at::Tensor& attention_mask,
                                                      const at::Tensor& token_type_ids) const {
  ModelInputs inputs = easydel::prepare_inputs_for_generation(
      check_prompt(*this, input_ids, config().bos_token_id),
      {.attention_mask = attention_mask, .starts = starts, .token_type_ids = token_type_ids},
      pad_token_id ? pad_token_id : config().pad_token_id, config().eos_token_id);
  inputs.past_key_values = init_cache(inputs.input_ids.size(0), max_length);
  return inputs;
}

void BaseModule::update_inputs_for_generation(const ModelOutput& model_outputs, ModelInputs& model_kwargs,
                                              const at::Tensor& next_tokens) const {
  easydel::update_inputs_for_generation(model_outputs, model_kwargs,
                                        next_tokens.dim() == 1 ? next_tokens.unsqueeze(1) : next_tokens);
}

}  // namespace easydel
