// The arguments of each objective in addition to TrainingArguments: EasyDeL's keys, with its defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/trainers/objectives/reference/reference_sync.h"

namespace easydel {

class FieldVisitor;

// How a row of text becomes tokens and labels: sft, base, distillation; classification has the first two.
struct TextArguments {
  std::optional<std::string> dataset_text_field = "text";
  std::optional<bool> add_special_tokens;  // to texts; null: as the tokenizer does by itself
  std::optional<bool> train_on_inputs;     // whether prompts count; null: as completion_only_loss says
  bool packing = false;
  std::string packing_strategy = "bfd";  // best-fit decreasing; or "bfd_split", "wrapped"
  std::optional<bool> eval_packing;      // packing
  bool padding_free = false;             // the rows of a minibatch become one, in which each is a document
  bool assistant_only_loss = false;
  std::optional<bool> completion_only_loss;  // where a row has a prompt and a completion
  int64_t dataset_batch_size = 1000;         // documents that bfd packs together
  std::string loss_type = "nll";             // or "dft": each token's loss times its own probability, held fixed
  bool freeze_vision_tower = true;           // of a vision-language model
  bool mask_image_tokens = true;             // likewise: false counts them, as trl's collator does

  bool counts_completions_alone() const { return completion_only_loss.value_or(!train_on_inputs.value_or(false)); }
};

struct DpoArguments {
  double beta = 0.1;
  double label_smoothing = 0.0;
  Json loss_type = "sigmoid";                       // a name, or a list of names
  std::optional<std::vector<double>> loss_weights;  // of a list: 1 each
  std::string f_divergence_type = "reverse_kl";
  double f_alpha_divergence_coef = 0.5;
  double discopop_tau = 0.05;
  std::optional<double> ld_alpha;  // weight of an answer's tokens beyond the length of the shorter one; 1
  bool use_weighting = false;
  bool padding_free = false;  // the answers of a minibatch become one row, in which each is a document
  bool reference_free = false;
  bool precompute_ref_log_probs = false;
  bool force_use_ref_model = false;
  ReferenceSync sync;
  std::optional<double> rpo_alpha;
  std::optional<int64_t> max_prompt_length = 256;
  std::optional<int64_t> max_completion_length;  // max_length - max_prompt_length
  int64_t label_pad_token_id = -100;
  std::optional<int64_t> padding_value;  // the tokenizer's
  bool disable_dropout = true;
  std::optional<int64_t> logprob_vocab_chunk_size;  // null or 0: lmhead_chunksize bounds the logits

  bool uses_reference() const { return !reference_free || force_use_ref_model; }
  std::vector<std::string> loss_types() const;
};

// Answers that are wanted or not, each by itself.
struct KtoArguments {
  double beta = 0.1;
  double desirable_weight = 1.0;
  double undesirable_weight = 1.0;
  std::string loss_type = "kto";  // or apo_zero_unpaired, which needs no estimate of the divergence
  std::optional<int64_t> max_prompt_length = 512;
  std::optional<int64_t> max_completion_length;  // max_length - max_prompt_length
  int64_t label_pad_token_id = -100;
  std::optional<int64_t> padding_value;  // the tokenizer's
  bool disable_dropout = true;
  bool precompute_ref_log_probs = false;
  std::optional<int64_t> logprob_vocab_chunk_size;

  bool estimates_kl() const { return loss_type == "kto"; }
};

// The same, with a classifier of both kinds.
struct BcoArguments {
  double beta = 0.1;
  std::optional<int64_t> max_prompt_length = 512;
  std::optional<int64_t> max_completion_length;  // max_length - max_prompt_length
  int64_t label_pad_token_id = -100;
  std::optional<int64_t> padding_value;  // the tokenizer's
  bool disable_dropout = true;
  bool precompute_ref_log_probs = false;
  std::optional<int64_t> logprob_vocab_chunk_size;
  bool underlying_distribution_matching = false;  // unwanted answers weigh as much as their prompts have wanted ones
  int64_t prompt_sample_size = 1024;              // prompts of each kind that say how much that is
  double min_density_ratio = 0.5;
  double max_density_ratio = 10.0;
};

// Pairs without a reference: CPO, SimPO and AlphaPO.
struct CpoArguments {
  double beta = 0.1;
  double label_smoothing = 0.0;
  std::string loss_type = "sigmoid";
  double cpo_alpha = 1.0;    // weight of the likelihood of chosen answers; alphapo has none
  double simpo_gamma = 0.5;  // margin of simpo and alphapo
  double alpha = 0.0;        // shape of the reward: (1 - p^-alpha) / alpha; 0: log p
  std::optional<int64_t> max_prompt_length = 512;
  std::optional<int64_t> max_completion_length;  // max_length - max_prompt_length
  int64_t label_pad_token_id = -100;
  std::optional<int64_t> padding_value;  // the tokenizer's
  bool disable_dropout = true;
  std::optional<int64_t> logprob_vocab_chunk_size;

  bool is_simpo() const { return loss_type == "simpo" || loss_type == "alphapo"; }
  double likelihood_weight() const { return loss_type == "alphapo" ? 0.0 : cpo_alpha; }
};

struct OrpoArguments {
  double beta = 0.1;
  std::optional<int64_t> max_prompt_length = 512;
  std::optional<int64_t> max_completion_length;  // max_length - max_prompt_length
  int64_t label_pad_token_id = -100;
  std::optional<int64_t> padding_value;  // the tokenizer's
  bool disable_dropout = true;
  std::optional<int64_t> logprob_vocab_chunk_size;
};

struct RewardArguments {
  std::optional<double> center_rewards_coefficient = 0.1;
  bool disable_dropout = true;
};

struct DistillationArguments {
  double temperature = 2.0;
  double alpha = 0.9;  // weight of the teacher; 1 - alpha is that of the labels
  std::optional<double> hidden_state_loss_weight;
  std::optional<std::vector<int64_t>> hidden_state_layers;
  std::string hidden_state_loss = "mse";
  std::optional<double> attention_loss_weight;
  std::optional<std::vector<int64_t>> attention_layers;
  bool attention_normalize = false;
  std::optional<int64_t> logits_chunk_size;
};

// On-policy distillation.
struct GkdArguments {
  double temperature = 0.9;           // of the sampling and of both distributions
  std::optional<double> lmbda = 0.5;  // share of the steps on what the student writes; none
  double beta = 0.5;                  // 0: KL(teacher || student), 1: its reverse
  int64_t max_new_tokens = 128;
  bool seq_kd = false;  // the other steps are on what the teacher writes, not on the data
  bool disable_dropout = true;
  std::optional<int64_t> logits_chunk_size;
};

struct ClassificationArguments {
  std::string label_field = "label";
  std::string image_field = "image";        // of a classifier of images
  std::optional<int64_t> num_labels;        // the model's
  std::optional<std::string> problem_type;  // the model's, else by the labels
};

void list_fields(TextArguments& text, FieldVisitor& v);
void list_text_fields(TextArguments& text, FieldVisitor& v);  // those of any text, which classification has too
void list_sft_fields(TextArguments& text, FieldVisitor& v);   // those of sft and base alone
void list_fields(DpoArguments& dpo, FieldVisitor& v);
void list_fields(KtoArguments& kto, FieldVisitor& v);
void list_fields(BcoArguments& bco, FieldVisitor& v);
void list_fields(CpoArguments& cpo, FieldVisitor& v);
void list_fields(OrpoArguments& orpo, FieldVisitor& v);
void list_fields(RewardArguments& reward, FieldVisitor& v);
void list_fields(DistillationArguments& distillation, FieldVisitor& v);
void list_fields(GkdArguments& gkd, FieldVisitor& v);
void list_fields(ClassificationArguments& classification, FieldVisitor& v);
// Of the trainer "contrastive": the columns of a text and of its image.
void list_pair_fields(TextArguments& text, ClassificationArguments& images, FieldVisitor& v);

}  // namespace easydel
