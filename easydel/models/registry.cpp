// The models of this library; one line for each family.
#include "easydel/infra/registry.h"
#include "easydel/models/models.h"
#include "easydel/models/register_models.h"

namespace easydel {
namespace {

template <class Base, class CausalLM, class... Classifier>
void register_family(Registry& registry) {
  registry.register_config<typename Base::ConfigType>();
  registry.register_module<Base>(TaskType::BaseModule);
  registry.register_module<CausalLM>(TaskType::CausalLM);
  (registry.register_module<Classifier>(TaskType::SequenceClassification), ...);
}

}  // namespace

void register_models(Registry& registry) {
  register_family<Cohere2Model, Cohere2ForCausalLM>(registry);
  register_family<CohereModel, CohereForCausalLM>(registry);
  register_family<DeepseekV2Model, DeepseekV2ForCausalLM, DeepseekV2ForSequenceClassification>(registry);
  register_family<DeepseekV3Model, DeepseekV3ForCausalLM, DeepseekV3ForSequenceClassification>(registry);
  register_family<Gemma2Model, Gemma2ForCausalLM, Gemma2ForSequenceClassification>(registry);
  register_family<Gemma3TextModel, Gemma3ForCausalLM, Gemma3TextForSequenceClassification>(registry);
  register_family<GemmaModel, GemmaForCausalLM, GemmaForSequenceClassification>(registry);
  register_family<GPT2Model, GPT2LMHeadModel, GPT2ForSequenceClassification>(registry);
  register_family<GPTNeoXModel, GPTNeoXForCausalLM, GPTNeoXForSequenceClassification>(registry);
  register_family<GptOssModel, GptOssForCausalLM, GptOssForSequenceClassification>(registry);
  register_family<GraniteModel, GraniteForCausalLM>(registry);
  register_family<LlamaModel, LlamaForCausalLM, LlamaForSequenceClassification>(registry);
  register_family<MistralModel, MistralForCausalLM, MistralForSequenceClassification>(registry);
  register_family<MixtralModel, MixtralForCausalLM, MixtralForSequenceClassification>(registry);
  register_family<Olmo2Model, Olmo2ForCausalLM, Olmo2ForSequenceClassification>(registry);
  register_family<Phi3Model, Phi3ForCausalLM, Phi3ForSequenceClassification>(registry);
  register_family<Qwen2Model, Qwen2ForCausalLM, Qwen2ForSequenceClassification>(registry);
  register_family<Qwen3Model, Qwen3ForCausalLM, Qwen3ForSequenceClassification>(registry);
  register_family<Qwen3MoeModel, Qwen3MoeForCausalLM, Qwen3MoeForSequenceClassification>(registry);
  register_family<SmolLM3Model, SmolLM3ForCausalLM, SmolLM3ForSequenceClassification>(registry);
  register_family<Starcoder2Model, Starcoder2ForCausalLM, Starcoder2ForSequenceClassification>(registry);
}

}  // namespace easydel
