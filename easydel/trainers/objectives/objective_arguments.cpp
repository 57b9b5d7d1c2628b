#include "easydel/trainers/objectives/objective_arguments.h"

#include "easydel/infra/fields/field_visitor.h"

namespace easydel {

void list_text_fields(TextArguments& t, FieldVisitor& v) {
  v("dataset_text_field", t.dataset_text_field, "The column that contains the text.");
  v("add_special_tokens", t.add_special_tokens, "Whether to add the tokenizer's special tokens; null: its default.");
}

void list_fields(TextArguments& t, FieldVisitor& v) {
  list_text_fields(t, v);
  v("train_on_inputs", t.train_on_inputs,
    "Whether to compute the loss on prompts too; null: determined by completion_only_loss.");
  v("packing", t.packing, "Pack several texts into one sequence of max_length tokens.");
  v("packing_strategy", t.packing_strategy,
    "bfd keeps texts whole; bfd_split splits those that are too long; wrapped splits at the end of each sequence.");
  v("eval_packing", t.eval_packing, "Packing for evaluation; null: same as packing.");
  v("padding_free", t.padding_free, "Concatenate the rows of a minibatch into one sequence instead of padding them.");
  v("assistant_only_loss", t.assistant_only_loss, "Compute the loss only on the assistant's turns.");
  v("completion_only_loss", t.completion_only_loss,
    "Compute the loss only on completions; null: if a row has a prompt.");
  v("dataset_batch_size", t.dataset_batch_size, "Texts that bfd packs together.");
}

void list_sft_fields(TextArguments& t, FieldVisitor& v) {
  v("loss_type", t.loss_type, "nll, or dft: each token's loss times its own probability.");
  v("freeze_vision_tower", t.freeze_vision_tower,
    "Do not train the vision tower of a vision-language model, unless frozen_parameters or lora_pattern says "
    "otherwise.");
  v("mask_image_tokens", t.mask_image_tokens,
    "Leave the tokens that image features replace out of a vision-language model's loss; false: count them, as trl "
    "does.");
}

std::vector<std::string> DpoArguments::loss_types() const {
  if (loss_type.is_string()) return {loss_type.as_string()};
  std::vector<std::string> names;
  for (const Json& name : loss_type.as_array()) names.push_back(name.as_string());
  return names;
}

void list_fields(DpoArguments& d, FieldVisitor& v) {
  v("beta", d.beta, "How strongly the policy is kept close to the reference.");
  v("label_smoothing", d.label_smoothing, "The fraction of pairs assumed to be mislabelled.");
  v("loss_type", d.loss_type, "The loss function, or a list of them, which are added.");
  v("loss_weights", d.loss_weights, "Weights of a list of losses; null: 1 each.");
  v("f_divergence_type", d.f_divergence_type, "reverse_kl, forward_kl, js_divergence or alpha_divergence.");
  v("f_alpha_divergence_coef", d.f_alpha_divergence_coef, "Alpha of alpha_divergence.");
  v("discopop_tau", d.discopop_tau, "Temperature of the mixing in the loss discopop.");
  v("ld_alpha", d.ld_alpha, "Weight of the tokens of an answer beyond the length of the shorter one; null: 1.");
  v("use_weighting", d.use_weighting, "Weight pairs by how likely the policy is to write them: WPO.");
  v("padding_free", d.padding_free,
    "Concatenate the answers of a minibatch into one sequence instead of padding them.");
  v("reference_free", d.reference_free, "Compare with a uniform reference.");
  v("precompute_ref_log_probs", d.precompute_ref_log_probs, "Evaluate the reference model once, before training.");
  v("force_use_ref_model", d.force_use_ref_model, "Use the reference even with reference_free.");
  list_fields(d.sync, v);
  v("rpo_alpha", d.rpo_alpha, "Weight of the likelihood of chosen answers; null: none.");
  v("max_prompt_length", d.max_prompt_length, "Maximum number of prompt tokens.");
  v("max_completion_length", d.max_completion_length, "Maximum number of answer tokens; null: the rest of max_length.");
  v("label_pad_token_id", d.label_pad_token_id, "The label that is ignored; must be -100.");
  v("padding_value", d.padding_value, "Padding token id; null: the tokenizer's.");
  v("disable_dropout", d.disable_dropout, "Train without dropout.");
  v("logprob_vocab_chunk_size", d.logprob_vocab_chunk_size,
    "Must be null or 0; use lmhead_chunksize to limit the logits held at once.");
}

void list_fields(KtoArguments& k, FieldVisitor& v) {
  v("beta", k.beta, "How strongly the policy is kept close to the reference.");
  v("desirable_weight", k.desirable_weight, "Weight of the loss on desirable answers.");
  v("undesirable_weight", k.undesirable_weight, "Weight of the loss on undesirable answers.");
  v("loss_type", k.loss_type, "kto or apo_zero_unpaired.");
  v("max_prompt_length", k.max_prompt_length, "Maximum number of prompt tokens.");
  v("max_completion_length", k.max_completion_length, "Maximum number of answer tokens; null: the rest of max_length.");
  v("label_pad_token_id", k.label_pad_token_id, "The label that is ignored; must be -100.");
  v("padding_value", k.padding_value, "Padding token id; null: the tokenizer's.");
  v("disable_dropout", k.disable_dropout, "Train without dropout.");
  v("precompute_ref_log_probs", k.precompute_ref_log_probs,
    "Evaluate the reference model once, before training; not supported.");
  v("logprob_vocab_chunk_size", k.logprob_vocab_chunk_size,
    "Must be null or 0; use lmhead_chunksize to limit the logits held at once.");
}

void list_fields(BcoArguments& b, FieldVisitor& v) {
  v("beta", b.beta, "How strongly the policy is kept close to the reference.");
  v("max_prompt_length", b.max_prompt_length, "Maximum number of prompt tokens.");
  v("max_completion_length", b.max_completion_length, "Maximum number of answer tokens; null: the rest of max_length.");
  v("label_pad_token_id", b.label_pad_token_id, "The label that is ignored; must be -100.");
  v("padding_value", b.padding_value, "Padding token id; null: the tokenizer's.");
  v("disable_dropout", b.disable_dropout, "Train without dropout.");
  v("precompute_ref_log_probs", b.precompute_ref_log_probs,
    "Evaluate the reference model once, before training; not supported.");
  v("logprob_vocab_chunk_size", b.logprob_vocab_chunk_size,
    "Must be null or 0; use lmhead_chunksize to limit the logits held at once.");
  v("underlying_distribution_matching", b.underlying_distribution_matching,
    "Weight undesirable answers by the density ratio of their prompts to those of desirable ones.");
  v("prompt_sample_size", b.prompt_sample_size, "Number of prompts of each kind from which the ratio is estimated.");
  v("min_density_ratio", b.min_density_ratio, "Minimum of that ratio.");
  v("max_density_ratio", b.max_density_ratio, "Maximum of that ratio.");
}

void list_fields(CpoArguments& c, FieldVisitor& v) {
  v("beta", c.beta, "Scale of the rewards.");
  v("label_smoothing", c.label_smoothing, "The fraction of pairs assumed to be mislabelled.");
  v("loss_type", c.loss_type, "sigmoid, hinge, ipo, simpo or alphapo.");
  v("cpo_alpha", c.cpo_alpha, "Weight of the likelihood of chosen answers; alphapo has none.");
  v("simpo_gamma", c.simpo_gamma, "Target reward margin of simpo and alphapo.");
  v("alpha", c.alpha, "Shape of the reward, (1 - p^-alpha) / alpha; 0: log p.");
  v("max_prompt_length", c.max_prompt_length, "Maximum number of prompt tokens.");
  v("max_completion_length", c.max_completion_length, "Maximum number of answer tokens; null: the rest of max_length.");
  v("label_pad_token_id", c.label_pad_token_id, "The label that is ignored; must be -100.");
  v("padding_value", c.padding_value, "Padding token id; null: the tokenizer's.");
  v("disable_dropout", c.disable_dropout, "Train without dropout.");
  v("logprob_vocab_chunk_size", c.logprob_vocab_chunk_size,
    "Must be null or 0; use lmhead_chunksize to limit the logits held at once.");
}

void list_fields(OrpoArguments& o, FieldVisitor& v) {
  v("beta", o.beta, "Weight of the odds ratio.");
  v("max_prompt_length", o.max_prompt_length, "Maximum number of prompt tokens.");
  v("max_completion_length", o.max_completion_length, "Maximum number of answer tokens; null: the rest of max_length.");
  v("label_pad_token_id", o.label_pad_token_id, "The label that is ignored; must be -100.");
  v("padding_value", o.padding_value, "Padding token id; null: the tokenizer's.");
  v("disable_dropout", o.disable_dropout, "Train without dropout.");
  v("logprob_vocab_chunk_size", o.logprob_vocab_chunk_size,
    "Must be null or 0; use lmhead_chunksize to limit the logits held at once.");
}

void list_fields(RewardArguments& r, FieldVisitor& v) {
  v("center_rewards_coefficient", r.center_rewards_coefficient,
    "Weight of a penalty that keeps the sum of a pair's rewards near zero.");
  v("disable_dropout", r.disable_dropout, "Train without dropout.");
}

void list_fields(DistillationArguments& d, FieldVisitor& v) {
  v("temperature", d.temperature, "Softmax temperature of both models.");
  v("alpha", d.alpha, "Weight of the distillation loss; the loss on the labels has weight 1 - alpha.");
  v("hidden_state_loss_weight", d.hidden_state_loss_weight, "Weight of the hidden-state loss; null: none.");
  v("hidden_state_layers", d.hidden_state_layers, "Layers to compare, -1 for the last; null: the last.");
  v("hidden_state_loss", d.hidden_state_loss, "The distance function: mse.");
  v("attention_loss_weight", d.attention_loss_weight, "Weight of the attention-map loss; not supported.");
  v("attention_layers", d.attention_layers, "Layers to compare; null: all.");
  v("attention_normalize", d.attention_normalize, "Normalize attention maps first.");
  v("logits_chunk_size", d.logits_chunk_size, "Tokens whose logits are computed at once; null: automatic.");
}

void list_fields(GkdArguments& g, FieldVisitor& v) {
  v("temperature", g.temperature, "Temperature of sampling and of both models' distributions.");
  v("lmbda", g.lmbda, "Fraction of steps on completions generated by the student; null: none.");
  v("beta", g.beta, "Interpolation of the divergence: 0 is KL(teacher || student), 1 is KL(student || teacher).");
  v("max_new_tokens", g.max_new_tokens, "Maximum number of tokens per completion.");
  v("seq_kd", g.seq_kd, "Use completions generated by the teacher in the other steps, not those of the data.");
  v("disable_dropout", g.disable_dropout, "Train without dropout.");
  v("logits_chunk_size", g.logits_chunk_size, "Tokens whose logits are computed at once; null: automatic.");
}

void list_fields(ClassificationArguments& c, FieldVisitor& v) {
  v("label_field", c.label_field, "The column that contains the label.");
  v("image_field", c.image_field, "For image classifiers: the column that contains the image.");
  v("num_labels", c.num_labels, "Number of labels; null: the model's.");
  v("problem_type", c.problem_type, "Type of prediction; null: the model's, otherwise inferred from the labels.");
}

void list_pair_fields(TextArguments& t, ClassificationArguments& c, FieldVisitor& v) {
  v("dataset_text_field", t.dataset_text_field, "The column that contains the text.");
  v("image_field", c.image_field, "The column that contains the image of the text.");
}

}  // namespace easydel
