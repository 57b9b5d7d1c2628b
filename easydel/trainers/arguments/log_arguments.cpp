#include "easydel/trainers/arguments/log_arguments.h"

#include <algorithm>
#include <cstdlib>

#include "easydel/infra/fields/field_visitor.h"
#include "easydel/trainers/arguments/argument_checker.h"
#include "easydel/trainers/objectives/policy_arguments.h"

namespace easydel {

bool TrackerArguments::reports_to(std::string_view tracker) const {
  return std::find(report_to.begin(), report_to.end(), tracker) != report_to.end() || (tracker == "wandb" && use_wandb);
}

bool has_previews(std::string_view type) {
  return type != "classification" && type != "embedding" && type != "reward" && type != "prm";
}

RolloutArguments PreviewArguments::sampling(const RolloutArguments* rollout) const {
  RolloutArguments out = rollout ? *rollout : RolloutArguments{.max_completion_length = 128, .num_return_sequences = 1};
  const bool samples = generation_do_sample.value_or(rollout != nullptr || generation_temperature || generation_top_p ||
                                                     generation_top_k);
  out.num_return_sequences = generation_num_return_sequences.value_or(out.num_return_sequences);
  out.max_completion_length = generation_max_new_tokens.value_or(out.max_completion_length);
  out.temperature = samples ? generation_temperature.value_or(out.temperature) : 0;
  out.top_p = generation_top_p.value_or(out.top_p);
  if (generation_top_k) out.top_k = generation_top_k;
  out.repetition_penalty = generation_repetition_penalty.value_or(out.repetition_penalty);
  return out;
}

void list_fields(TrackerArguments& t, FieldVisitor& v) {
  v("report_to", t.report_to, "Trackers: wandb, mlflow, trackio, tensorboard; a name or a list, none: no tracker.");
  v("use_wandb", t.use_wandb, "Log to Weights & Biases; same as report_to: wandb.");
  v("wandb_entity", t.wandb_entity,
    "Weights & Biases account or team; null: WANDB_ENTITY, else the account's default.");
  v("wandb_project", t.wandb_project,
    "Project or experiment name for all trackers; null: the tracker's environment variable, else EasyDeL and "
    "trainer_prefix.",
    {"project"});
  v("wandb_name", t.wandb_name, "Name of the run in all trackers; null: the report's title.", {"run_name"});
  v("mlflow_tracking_uri", t.mlflow_tracking_uri, "URL of the MLflow server; null: MLFLOW_TRACKING_URI.");
}

void list_fields(PreviewArguments& p, FieldVisitor& v) {
  v("generation_interval", p.generation_interval, "Steps between sample generations during training; null: none.");
  v("generation_prompts", p.generation_prompts, "Prompts for the samples: texts, lists of messages, or rows.");
  v("generation_use_train_prompts", p.generation_use_train_prompts, "Also use prompts from the training data.");
  v("generation_num_prompts", p.generation_num_prompts,
    "Number of prompts; null: all of generation_prompts, plus one from the data with generation_use_train_prompts.");
  v("generation_dataset_prompt_field", p.generation_dataset_prompt_field, "The column that contains the prompt.");
  v("generation_num_return_sequences", p.generation_num_return_sequences,
    "Completions per prompt; null: 1, or as many as the trainer itself generates.");
  v("generation_max_new_tokens", p.generation_max_new_tokens,
    "Maximum number of new tokens; null: 128, or the trainer's own setting, as for the next four.");
  v("generation_temperature", p.generation_temperature, "Temperature; null: 1.");
  v("generation_top_p", p.generation_top_p,
    "Sample from the smallest set of most likely tokens with this total probability.");
  v("generation_top_k", p.generation_top_k, "Sample from this many most likely tokens; 0: all.");
  v("generation_repetition_penalty", p.generation_repetition_penalty, "Repetition penalty; null: 1.");
  v("generation_do_sample", p.generation_do_sample,
    "Sample instead of decoding greedily; null: if temperature, top_p or top_k is given.");
  v("generation_seed", p.generation_seed, "Random seed for choosing prompts and sampling; null: seed.");
  v("generation_preview_print", p.generation_preview_print, "Print the samples as a table.");
  v("generation_log_to_wandb", p.generation_log_to_wandb, "Also log the samples to trackers that support tables.");
}

void list_fields(PushArguments& p, FieldVisitor& v) {
  v("push_to_hub", p.push_to_hub, "Upload checkpoints to the Hugging Face hub in the background.");
  v("hub_model_id", p.hub_model_id, "The repository; null: the name of save_directory.");
  v("hub_strategy", p.hub_strategy, "every_save: each checkpoint; end: the last one.");
  v("hub_private_repo", p.hub_private_repo, "Whether a new repository is private; null: the account's default.");
  v("hub_always_push", p.hub_always_push, "Upload each checkpoint, even if the previous upload has not finished.");
}

void check(const TrackerArguments& t, const ArgumentChecker& c) {
  for (const std::string& name : t.report_to)
    c.one_of("report_to", name, {"wandb", "mlflow", "trackio", "tensorboard", "none"});
  c.rule(!t.reports_to("none") || (t.report_to.size() == 1 && !t.use_wandb), "report_to",
         "not name none beside trackers", "none");
  c.name("wandb_entity", t.wandb_entity);
  c.name("wandb_project", t.wandb_project);
  c.name("wandb_name", t.wandb_name);
  if (t.wandb_entity)
    c.rule(t.reports_to("wandb"), "wandb_entity", "be used together with report_to: wandb", *t.wandb_entity);
  const bool tracks = t.reports_to("wandb") || t.reports_to("mlflow") || t.reports_to("trackio");
  if (t.wandb_project) c.rule(tracks, "wandb_project", "be used together with report_to", *t.wandb_project);
  if (t.wandb_name) c.rule(tracks, "wandb_name", "be used together with report_to", *t.wandb_name);
  if (t.mlflow_tracking_uri) {
    c.rule(t.reports_to("mlflow"), "mlflow_tracking_uri", "be used together with report_to: mlflow",
           *t.mlflow_tracking_uri);
    c.only(t.mlflow_tracking_uri->starts_with("http://") || t.mlflow_tracking_uri->starts_with("https://"),
           "mlflow_tracking_uri", "be the URL of a server, http://HOST:PORT", *t.mlflow_tracking_uri,
           "Start one with `mlflow server`.");
  }
}

void check(const PreviewArguments& p, const ArgumentChecker& c) {
  c.at_least("generation_interval", p.generation_interval, 1);
  c.rule(p.generation_prompts.is_array(), "generation_prompts", "be a list of prompts", p.generation_prompts.dump());
  c.at_least("generation_num_prompts", p.generation_num_prompts, 1);
  c.rule(!p.generation_dataset_prompt_field.empty(), "generation_dataset_prompt_field", "not be empty", "\"\"");
  c.at_least("generation_num_return_sequences", p.generation_num_return_sequences, 1);
  c.at_least("generation_max_new_tokens", p.generation_max_new_tokens, 1);
  c.finite_from_zero("generation_temperature", p.generation_temperature);
  if (p.generation_top_p)
    c.rule(*p.generation_top_p > 0 && *p.generation_top_p <= 1, "generation_top_p", "lie above 0 and up to 1",
           *p.generation_top_p);
  c.at_least("generation_top_k", p.generation_top_k, 0);
  c.positive("generation_repetition_penalty", p.generation_repetition_penalty);
  for (const Json& prompt : p.generation_prompts.as_array()) {
    c.rule(prompt.is_string() || prompt.is_object() || (prompt.is_array() && prompt.size() > 0), "generation_prompts",
           "be texts, lists of messages, or rows", prompt.dump());
  }
  if (p.generation_interval)
    c.rule(p.generation_prompts.size() > 0 || p.generation_use_train_prompts, "generation_interval",
           "be used together with generation_prompts or generation_use_train_prompts", *p.generation_interval);
  if (!p.generation_interval)
    c.rule(p.generation_prompts.size() == 0 && !p.generation_use_train_prompts, "generation_interval",
           "be given if generation_prompts or generation_use_train_prompts are", "null");
}

void check(const PushArguments& p, bool has_directory, const ArgumentChecker& c) {
  c.name("hub_model_id", p.hub_model_id);
  c.one_of("hub_strategy", p.hub_strategy, {"every_save", "end"});
  if (p.push_to_hub)
    c.rule(has_directory, "push_to_hub", "be used together with save_directory: checkpoints are what is uploaded",
           "true");
  if (!p.push_to_hub)
    c.rule(!p.hub_model_id && !p.hub_private_repo && !p.hub_always_push && p.hub_strategy == "every_save",
           "push_to_hub", "be true if hub_model_id, hub_strategy, hub_private_repo or hub_always_push are given",
           "false");
}

}  // namespace easydel
