#include "easydel/trainers/objectives/objective_arguments.h"

#include "easydel/infra/fields/field_visitor.h"

namespace easydel {

void list_text_fields(TextArguments& t, FieldVisitor& v) {
  v("dataset_text_field", t.dataset_text_field, "The column that holds the text.");
  v("add_special_tokens", t.add_special_tokens, "Whether texts get the tokenizer's special tokens; null: as it does.");
}

void list_fields(TextArguments& t, FieldVisitor& v) {
  list_text_fields(t, v);
  v("train_on_inputs", t.train_on_inputs, "Whether prompts count in the loss; null: as completion_only_loss says.");
  v("packing", t.packing, "Put several texts into one sequence of max_length tokens.");
  v("packing_strategy", t.packing_strategy,
    "bfd keeps texts whole; bfd_split cuts those that are too long; wrapped cuts where a sequence ends.");
  v("eval_packing", t.eval_packing, "The same for evaluation; null: packing.");
  v("assistant_only_loss", t.assistant_only_loss, "Only what the assistant says counts in the loss.");
  v("completion_only_loss", t.completion_only_loss, "Only completions count; null: where a row has a prompt.");
  v("dataset_batch_size", t.dataset_batch_size, "Texts that bfd packs together.");
}

void list_fields(DpoArguments& d, FieldVisitor& v) {
  v("beta", d.beta, "How strongly the policy is held to the reference.");
  v("label_smoothing", d.label_smoothing, "The share of pairs that is taken to be labelled the wrong way round.");
  v("loss_type", d.loss_type, "Which function of the margins is the loss.");
  v("use_weighting", d.use_weighting, "Weight pairs by the policy's own probabilities; not supported.");
  v("reference_free", d.reference_free, "Compare with a uniform reference.");
  v("precompute_ref_log_probs", d.precompute_ref_log_probs, "Run the reference once, before training.");
  v("force_use_ref_model", d.force_use_ref_model, "Use the reference even with reference_free.");
  v("sync_ref_model", d.sync_ref_model, "Move the reference towards the policy now and then; not supported.");
  v("ref_model_mixup_alpha", d.ref_model_mixup_alpha, "The policy's weight in such a move.");
  v("ref_model_sync_steps", d.ref_model_sync_steps, "Steps between such moves.");
  v("rpo_alpha", d.rpo_alpha, "Weight of the likelihood of chosen answers; null: none.");
  v("max_prompt_length", d.max_prompt_length, "Tokens of a prompt at most.");
  v("max_completion_length", d.max_completion_length, "Tokens of an answer; null: what max_length leaves.");
  v("label_pad_token_id", d.label_pad_token_id, "The label that counts for nothing: -100.");
  v("padding_value", d.padding_value, "Fills short rows; null: the tokenizer's.");
  v("disable_dropout", d.disable_dropout, "Train without dropout.");
  v("logprob_vocab_chunk_size", d.logprob_vocab_chunk_size,
    "null or 0; lmhead_chunksize bounds what is held of logits.");
}

void list_fields(OrpoArguments& o, FieldVisitor& v) {
  v("beta", o.beta, "Weight of the odds ratio.");
  v("max_prompt_length", o.max_prompt_length, "Tokens of a prompt at most.");
  v("max_completion_length", o.max_completion_length, "Tokens of an answer; null: what max_length leaves.");
  v("label_pad_token_id", o.label_pad_token_id, "The label that counts for nothing: -100.");
  v("padding_value", o.padding_value, "Fills short rows; null: the tokenizer's.");
  v("disable_dropout", o.disable_dropout, "Train without dropout.");
  v("logprob_vocab_chunk_size", o.logprob_vocab_chunk_size,
    "null or 0; lmhead_chunksize bounds what is held of logits.");
}

void list_fields(RewardArguments& r, FieldVisitor& v) {
  v("center_rewards_coefficient", r.center_rewards_coefficient, "Holds the sum of a pair's rewards near zero.");
  v("disable_dropout", r.disable_dropout, "Train without dropout.");
}

void list_fields(DistillationArguments& d, FieldVisitor& v) {
  v("temperature", d.temperature, "Divides the logits of both models.");
  v("alpha", d.alpha, "Weight of the teacher; the rest is that of the labels.");
  v("hidden_state_loss_weight", d.hidden_state_loss_weight, "Weight of the hidden states' distance; null: none.");
  v("hidden_state_layers", d.hidden_state_layers, "The layers that it compares, -1 the last; null: the last.");
  v("hidden_state_loss", d.hidden_state_loss, "The distance: mse.");
  v("attention_loss_weight", d.attention_loss_weight, "Weight of the attention maps' distance; not supported.");
  v("attention_layers", d.attention_layers, "The layers that it compares; null: all.");
  v("attention_normalize", d.attention_normalize, "Normalize attention maps first.");
  v("logits_chunk_size", d.logits_chunk_size, "Tokens whose logits are held at once; null: chosen here.");
}

void list_fields(ClassificationArguments& c, FieldVisitor& v) {
  v("label_field", c.label_field, "The column that holds the label.");
  v("num_labels", c.num_labels, "How many labels there are; null: the model's.");
  v("problem_type", c.problem_type, "What is predicted; null: the model's, else by the labels.");
}

}  // namespace easydel
