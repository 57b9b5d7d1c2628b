#include "easydel/core/error.h"
#include "easydel/processors/feature_extractor.h"
#include "easydel/processors/vision_processor.h"
#include "easydel/trainers/objectives/distillation/gkd_objective.h"
#include "easydel/trainers/objectives/policy_objective.h"
#include "easydel/trainers/trainer.h"

namespace easydel {

std::unique_ptr<Objective> make_objective(const std::string& trainer_type, std::shared_ptr<const BaseModule> other,
                                          const TrainedModel& trained) {
  const TaskType task = trained.model ? trained.model->model_task() : TaskType::AutoBind;
  const bool is_sft = trainer_type == "sft" || trainer_type == "base";
  if (is_sft && task == TaskType::SpeechSequenceToSequence)
    return make_speech_objective(AutoFeatureExtractor::from_directory(trained.files), trained.model->config());
  if (is_sft && task == TaskType::ImageTextToText)
    return make_vision_objective(VisionProcessor::from_directory(trained.files));
  if (is_sft) return task == TaskType::SequenceToSequence ? make_seq2seq_objective() : make_causal_lm_objective();
  if (trainer_type == "embedding") return make_embedding_objective();
  if (trainer_type == "contrastive") {
    require<ConfigError>(task == TaskType::ZeroShotImageClassification,
                         "[make_objective] contrastive needs a text-image model, clip or siglip; got ",
                         trained.model ? trained.model->type_name() : "no model", ".");
    return make_contrastive_objective(AutoImageProcessor::from_directory(trained.files), trained.model->config());
  }
  if (trainer_type == "classification") {
    return task == TaskType::ImageClassification
               ? make_image_classification_objective(AutoImageProcessor::from_directory(trained.files))
               : make_classification_objective();
  }
  if (trainer_type == "dpo") return make_dpo_objective(std::move(other));
  if (trainer_type == "kto") return make_kto_objective(std::move(other));
  if (trainer_type == "bco") return make_bco_objective(std::move(other));
  if (trainer_type == "cpo") return make_cpo_objective();
  if (trainer_type == "orpo") return make_orpo_objective();
  if (learns_from_rewards(trainer_type)) return make_policy_objective(trainer_type, {.reference = std::move(other)});
  if (trainer_type == "reward") return make_reward_objective();
  if (trainer_type == "prm") return make_prm_objective();
  if (trainer_type == "distillation") return make_distillation_objective(std::move(other));
  if (distils_what_is_written(trainer_type)) return make_written_objective(trainer_type, {.teacher = std::move(other)});
  if (trainer_type == "gkd") return make_gkd_objective({.teacher = std::move(other)});
  require_trainer_type(trainer_type, "[make_objective]");
  fail<NotSupportedError>("[make_objective] ", trainer_type, " is not supported yet.");
}

}  // namespace easydel
