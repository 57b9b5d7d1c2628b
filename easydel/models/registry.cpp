// The models of this library; one line for each family.
#include "easydel/infra/registry.h"
#include "easydel/models/models.h"
#include "easydel/models/register_models.h"
#include "easydel/models/token_classifier/models.h"

namespace easydel {
namespace {

template <class Base, class CausalLM, class... Classifier>
void register_family(Registry& registry) {
  registry.register_config<typename Base::ConfigType>();
  registry.register_module<Base>(TaskType::BaseModule);
  registry.register_module<CausalLM>(TaskType::CausalLM);
  (registry.register_module<Classifier>(TaskType::SequenceClassification), ...);
}

template <class Base, class Generation, class Answering, class Classifier>
void register_bart(Registry& registry) {
  registry.register_config<typename Base::ConfigType>();
  registry.register_module<Base>(TaskType::BaseModule);
  registry.register_module<Generation>(TaskType::SequenceToSequence);
  registry.register_module<Generation>(TaskType::MaskedLM);  // as transformers' AutoModelForMaskedLM has it
  registry.register_module<Answering>(TaskType::QuestionAnswering);
  registry.register_module<Classifier>(TaskType::SequenceClassification);
}

template <class Base, class MaskedLM, class Tagger, class Answering, class Classifier>
void register_bert(Registry& registry) {
  registry.register_config<typename Base::ConfigType>();
  registry.register_module<Base>(TaskType::BaseModule);
  registry.register_module<MaskedLM>(TaskType::MaskedLM);
  registry.register_module<Tagger>(TaskType::TokenClassification);
  registry.register_module<Answering>(TaskType::QuestionAnswering);
  registry.register_module<Classifier>(TaskType::SequenceClassification);
}

template <class Base, class Encoder, class Generation, class Answering, class Classifier, class Tagger>
void register_t5(Registry& registry) {
  registry.register_config<typename Base::ConfigType>();
  registry.register_module<Base>(TaskType::BaseModule);
  registry.register_module<Encoder>(TaskType::BaseModule);
  registry.register_module<Generation>(TaskType::SequenceToSequence);
  registry.register_module<Answering>(TaskType::QuestionAnswering);
  registry.register_module<Classifier>(TaskType::SequenceClassification);
  registry.register_module<Tagger>(TaskType::TokenClassification);
}

// Decoders that see. Their text alone is a causal LM of another family (infra/files/text_part.h).
template <class Base, class Generation>
void register_seeing(Registry& registry) {
  registry.register_config<typename Base::ConfigType>();
  registry.register_module<Base>(TaskType::BaseModule);
  registry.register_module<Generation>(TaskType::ImageTextToText);
}

template <class Vision, class Text, class Both, class Generation>
void register_qwen_vl(Registry& registry) {
  registry.register_config<typename Vision::ConfigType>();
  registry.register_config<typename Text::ConfigType>();
  registry.register_module<Vision>(TaskType::BaseModule);
  registry.register_module<Text>(TaskType::BaseModule);
  register_seeing<Both, Generation>(registry);
}

// A tower for texts, one for images, and both.
template <class Text, class Vision, class Both, class Classifier>
void register_towers(Registry& registry) {
  registry.register_config<typename Text::ConfigType>();
  registry.register_config<typename Vision::ConfigType>();
  registry.register_config<typename Both::ConfigType>();
  registry.register_module<Text>(TaskType::BaseModule);
  registry.register_module<Vision>(TaskType::BaseModule);
  registry.register_module<Vision>(TaskType::VisionModule);
  registry.register_module<Both>(TaskType::BaseModule);
  registry.register_module<Both>(TaskType::ZeroShotImageClassification);
  registry.register_module<Classifier>(TaskType::ImageClassification);
}

template <class Tower, class Classifier>
void register_vision(Registry& registry) {
  registry.register_config<typename Tower::ConfigType>();
  registry.register_module<Tower>(TaskType::BaseModule);
  registry.register_module<Tower>(TaskType::VisionModule);
  registry.register_module<Classifier>(TaskType::ImageClassification);
}

void register_decoders(Registry& registry) {
  register_family<ArceeModel, ArceeForCausalLM, ArceeForSequenceClassification>(registry);
  register_family<BloomModel, BloomForCausalLM, BloomForSequenceClassification>(registry);
  register_family<Cohere2Model, Cohere2ForCausalLM>(registry);
  register_family<CohereModel, CohereForCausalLM>(registry);
  register_family<DbrxModel, DbrxForCausalLM>(registry);
  register_family<DeepseekModel, DeepseekForCausalLM>(registry);
  register_family<DeepseekV2Model, DeepseekV2ForCausalLM, DeepseekV2ForSequenceClassification>(registry);
  register_family<DeepseekV3Model, DeepseekV3ForCausalLM, DeepseekV3ForSequenceClassification>(registry);
  register_family<Ernie4_5_MoeModel, Ernie4_5_MoeForCausalLM>(registry);
  register_family<Ernie4_5Model, Ernie4_5ForCausalLM>(registry);
  register_family<Exaone4Model, Exaone4ForCausalLM, Exaone4ForSequenceClassification>(registry);
  register_family<FalconH1Model, FalconH1ForCausalLM>(registry);
  register_family<FalconModel, FalconForCausalLM, FalconForSequenceClassification>(registry);
  register_family<FalconMambaModel, FalconMambaForCausalLM>(registry);
  register_family<Gemma2Model, Gemma2ForCausalLM, Gemma2ForSequenceClassification>(registry);
  register_family<Gemma3TextModel, Gemma3ForCausalLM, Gemma3TextForSequenceClassification>(registry);
  register_family<GemmaModel, GemmaForCausalLM, GemmaForSequenceClassification>(registry);
  register_family<Glm4Model, Glm4ForCausalLM, Glm4ForSequenceClassification>(registry);
  register_family<Glm4MoeModel, Glm4MoeForCausalLM>(registry);
  register_family<GlmModel, GlmForCausalLM, GlmForSequenceClassification>(registry);
  register_family<GPT2Model, GPT2LMHeadModel, GPT2ForSequenceClassification>(registry);
  register_family<GPTJModel, GPTJForCausalLM, GPTJForSequenceClassification>(registry);
  register_family<GPTNeoXModel, GPTNeoXForCausalLM, GPTNeoXForSequenceClassification>(registry);
  register_family<GptOssModel, GptOssForCausalLM, GptOssForSequenceClassification>(registry);
  register_family<GraniteModel, GraniteForCausalLM>(registry);
  register_family<GraniteMoeModel, GraniteMoeForCausalLM>(registry);
  register_family<HeliumModel, HeliumForCausalLM, HeliumForSequenceClassification>(registry);
  register_family<HunYuanDenseV1Model, HunYuanDenseV1ForCausalLM, HunYuanDenseV1ForSequenceClassification>(registry);
  register_family<InternLM2Model, InternLM2ForCausalLM>(registry);
  register_family<KimiLinearModel, KimiLinearForCausalLM>(registry);
  register_family<Llama4TextModel, Llama4ForCausalLM>(registry);
  register_family<LlamaModel, LlamaForCausalLM, LlamaForSequenceClassification>(registry);
  register_family<Mamba2Model, Mamba2ForCausalLM>(registry);
  register_family<MambaModel, MambaForCausalLM>(registry);
  register_family<MiniMaxModel, MiniMaxForCausalLM, MiniMaxForSequenceClassification>(registry);
  register_family<MinistralModel, MinistralForCausalLM, MinistralForSequenceClassification>(registry);
  register_family<MistralModel, MistralForCausalLM, MistralForSequenceClassification>(registry);
  register_family<MixtralModel, MixtralForCausalLM, MixtralForSequenceClassification>(registry);
  register_family<MptModel, MptForCausalLM, MptForSequenceClassification>(registry);
  register_family<NemotronModel, NemotronForCausalLM, NemotronForSequenceClassification>(registry);
  register_family<Olmo2Model, Olmo2ForCausalLM, Olmo2ForSequenceClassification>(registry);
  register_family<Olmo3Model, Olmo3ForCausalLM, Olmo3ForSequenceClassification>(registry);
  register_family<OlmoeModel, OlmoeForCausalLM>(registry);
  register_family<OlmoModel, OlmoForCausalLM, OlmoForSequenceClassification>(registry);
  register_family<OPTModel, OPTForCausalLM, OPTForSequenceClassification>(registry);
  register_family<PersimmonModel, PersimmonForCausalLM, PersimmonForSequenceClassification>(registry);
  register_family<Phi3Model, Phi3ForCausalLM, Phi3ForSequenceClassification>(registry);
  register_family<PhiModel, PhiForCausalLM, PhiForSequenceClassification>(registry);
  register_family<PhimoeModel, PhimoeForCausalLM, PhimoeForSequenceClassification>(registry);
  register_family<Qwen2Model, Qwen2ForCausalLM, Qwen2ForSequenceClassification>(registry);
  register_family<Qwen2MoeModel, Qwen2MoeForCausalLM, Qwen2MoeForSequenceClassification>(registry);
  register_family<Qwen3Model, Qwen3ForCausalLM, Qwen3ForSequenceClassification>(registry);
  register_family<Qwen3MoeModel, Qwen3MoeForCausalLM, Qwen3MoeForSequenceClassification>(registry);
  register_family<Qwen3NextModel, Qwen3NextForCausalLM, Qwen3NextForSequenceClassification>(registry);
  register_family<Qwen3_5TextModel, Qwen3_5ForCausalLM, Qwen3_5TextForSequenceClassification>(registry);
  register_family<SeedOssModel, SeedOssForCausalLM, SeedOssForSequenceClassification>(registry);
  register_family<SmolLM3Model, SmolLM3ForCausalLM, SmolLM3ForSequenceClassification>(registry);
  register_family<StableLmModel, StableLmForCausalLM, StableLmForSequenceClassification>(registry);
  register_family<Starcoder2Model, Starcoder2ForCausalLM, Starcoder2ForSequenceClassification>(registry);
}

void register_encoder_decoders(Registry& registry) {
  register_bart<BartModel, BartForConditionalGeneration, BartForQuestionAnswering, BartForSequenceClassification>(
      registry);
  register_bart<MBartModel, MBartForConditionalGeneration, MBartForQuestionAnswering, MBartForSequenceClassification>(
      registry);
  registry.register_config<PegasusConfig>();
  registry.register_module<PegasusModel>(TaskType::BaseModule);
  registry.register_module<PegasusForConditionalGeneration>(TaskType::SequenceToSequence);
  register_t5<T5Model, T5EncoderModel, T5ForConditionalGeneration, T5ForQuestionAnswering, T5ForSequenceClassification,
              T5ForTokenClassification>(registry);
  register_t5<MT5Model, MT5EncoderModel, MT5ForConditionalGeneration, MT5ForQuestionAnswering,
              MT5ForSequenceClassification, MT5ForTokenClassification>(registry);
  register_t5<UMT5Model, UMT5EncoderModel, UMT5ForConditionalGeneration, UMT5ForQuestionAnswering,
              UMT5ForSequenceClassification, UMT5ForTokenClassification>(registry);
  registry.register_config<WhisperConfig>();
  registry.register_module<WhisperModel>(TaskType::BaseModule);
  registry.register_module<WhisperForConditionalGeneration>(TaskType::SpeechSequenceToSequence);
  registry.register_module<WhisperForAudioClassification>(TaskType::AudioClassification);
}

void register_encoders(Registry& registry) {
  register_bert<BertModel, BertForMaskedLM, BertForTokenClassification, BertForQuestionAnswering,
                BertForSequenceClassification>(registry);
  register_bert<ModernBertModel, ModernBertForMaskedLM, ModernBertForTokenClassification,
                ModernBertForQuestionAnswering, ModernBertForSequenceClassification>(registry);
  register_bert<RobertaModel, RobertaForMaskedLM, RobertaForTokenClassification, RobertaForQuestionAnswering,
                RobertaForSequenceClassification>(registry);
  register_bert<XLMRobertaModel, XLMRobertaForMaskedLM, XLMRobertaForTokenClassification,
                XLMRobertaForQuestionAnswering, XLMRobertaForSequenceClassification>(registry);
}

void register_image_models(Registry& registry) {
  register_towers<CLIPTextModel, CLIPVisionModel, CLIPModel, CLIPForImageClassification>(registry);
  registry.register_module<CLIPTextModelWithProjection>(TaskType::BaseModule);
  registry.register_module<CLIPVisionModelWithProjection>(TaskType::VisionModule);
  register_towers<SiglipTextModel, SiglipVisionModel, SiglipModel, SiglipForImageClassification>(registry);
  register_vision<Dinov2Model, Dinov2ForImageClassification>(registry);
  register_vision<ViTModel, ViTForImageClassification>(registry);
}

void register_image_text_models(Registry& registry) {
  registry.register_config<LlavaConfig>();
  registry.register_module<LlavaModel>(TaskType::BaseModule);
  registry.register_module<LlavaForConditionalGeneration>(TaskType::ImageTextToText);
  registry.register_module<LlavaForConditionalGeneration>(TaskType::CausalLM);
  register_seeing<Gemma3Model, Gemma3ForConditionalGeneration>(registry);
  registry.register_config<PixtralVisionConfig>();
  registry.register_module<PixtralVisionModel>(TaskType::BaseModule);
  registry.register_module<PixtralVisionModel>(TaskType::VisionModule);
  register_seeing<Mistral3Model, Mistral3ForConditionalGeneration>(registry);
  registry.register_config<SmolVLMVisionConfig>();
  registry.register_module<SmolVLMVisionTransformer>(TaskType::BaseModule);
  register_seeing<SmolVLMModel, SmolVLMForConditionalGeneration>(registry);
  registry.register_module<SmolVLMForConditionalGeneration>(TaskType::CausalLM);
  register_qwen_vl<Qwen2VisionTransformerPretrainedModel, Qwen2VLTextModel, Qwen2VLModel,
                   Qwen2VLForConditionalGeneration>(registry);
  register_qwen_vl<Qwen2_5_VisionTransformerPretrainedModel, Qwen2_5_VLTextModel, Qwen2_5_VLModel,
                   Qwen2_5_VLForConditionalGeneration>(registry);
  register_qwen_vl<Qwen3VLVisionModel, Qwen3VLTextModel, Qwen3VLModel, Qwen3VLForConditionalGeneration>(registry);
}

void register_token_classifiers(Registry& registry) {
  registry.register_module<GemmaForTokenClassification>(TaskType::TokenClassification);
  registry.register_module<Gemma2ForTokenClassification>(TaskType::TokenClassification);
  registry.register_module<LlamaForTokenClassification>(TaskType::TokenClassification);
  registry.register_module<MistralForTokenClassification>(TaskType::TokenClassification);
  registry.register_module<MixtralForTokenClassification>(TaskType::TokenClassification);
  registry.register_module<Phi3ForTokenClassification>(TaskType::TokenClassification);
  registry.register_module<Qwen2ForTokenClassification>(TaskType::TokenClassification);
  registry.register_module<Qwen3ForTokenClassification>(TaskType::TokenClassification);
}

}  // namespace

void register_models(Registry& registry) {
  register_decoders(registry);
  register_encoder_decoders(registry);
  register_encoders(registry);
  register_image_models(registry);
  register_image_text_models(registry);
  register_token_classifiers(registry);
}

}  // namespace easydel
