// A training objective: how an example becomes rows of a batch, and a batch a loss. One file per objective.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "easydel/data/loader.h"
#include "easydel/infra/base_module.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/trainers/arguments/training_arguments.h"
#include "easydel/trainers/run/batch.h"

namespace easydel {

class ImageProcessor;           // processors/image_processor.h
class VisionProcessor;          // processors/vision_processor.h
class WhisperFeatureExtractor;  // processors/feature_extractor.h

struct ObjectiveLoss {
  at::Tensor loss;
  // Numbers without gradient, already divided as the loss is: they add up over minibatches.
  std::map<std::string, at::Tensor> metrics = {};
};

// What a minibatch is a part of.
struct LossContext {
  const TrainingArguments& arguments;
  double items = 1;  // of all minibatches of the step and all ranks: what the loss is divided by
  double share = 1;  // of this minibatch's items in them
  std::map<std::string, double> totals = {};  // of the rows' numbers, over all minibatches of the step and all ranks
  std::optional<RandomKey> dropout_key = {};  // absent: nothing is dropped
  bool is_training = false;                   // false: an evaluation
};

// What an objective may look through before the first step.
struct ObjectiveData {
  const AutoTokenizer& tokenizer;
  std::vector<std::shared_ptr<const data::Dataset>> datasets;  // that a run reads
  BatchOptions batch;                                          // of a minibatch
};

// Rows that the model wrote itself.
struct GeneratedRows {
  std::vector<std::vector<BatchRow>> steps;  // this rank's, of each step that is trained on other rows
  std::map<std::string, double> metrics;     // the same on all ranks
};

struct GenerationContext {
  const TrainingArguments& arguments;
  const AutoTokenizer& tokenizer;
  BatchOptions batch;  // of a minibatch
  int64_t step = 0;    // what the random numbers depend on, besides the seed
  bool is_evaluation = false;
};

class Objective {
 public:
  virtual ~Objective() = default;
  virtual TaskType task() const { return TaskType::CausalLM; }
  virtual int64_t rows_per_example(const TrainingArguments&) const { return 1; }
  // From a row of the data to an example. The tokenizer outlives the function.
  virtual data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const = 0;
  virtual bool packs(const TrainingArguments&) const { return false; }
  virtual bool joins_rows(const TrainingArguments&) const { return false; }  // of a minibatch, instead of padding them
  virtual std::optional<int64_t> padding_value(const TrainingArguments&) const { return std::nullopt; }  // tokenizer's
  virtual std::vector<BatchRow> rows(const data::Example& example) const = 0;
  // A pattern of parameters that are not trained by default, and that get no adapters; absent: all are.
  virtual std::optional<std::string> frozen_by_default(const TrainingArguments&) const { return std::nullopt; }
  // What rows of a minibatch have of each other: this rank's, in their order.
  virtual void link_rows(std::vector<BatchRow>&, const TrainingArguments&) const {}
  // For how many steps a generation is trained on; 0: the rows come from the data.
  virtual int64_t steps_of_generation(const TrainingArguments&) const { return 0; }
  // From this rank's examples of one or several batches, with the model as it is. All ranks call it together.
  virtual GeneratedRows generate(const std::shared_ptr<BaseModule>&, const std::vector<std::vector<data::Example>>&,
                                 const GenerationContext&) {
    return {};
  }
  // What a loss of these rows is a mean over: tokens, rows or pairs.
  virtual double count_items(const std::vector<BatchRow>& rows) const = 0;
  // Of the whole batch, on every rank.
  virtual ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const = 0;
  // Once, before the first step, with the model as it is then: checks, and what is computed of the data ahead.
  virtual void prepare(const BaseModule&, const TrainingArguments&, const ObjectiveData&) {}
  // The objective's own numbers, for a checkpoint; null: it has none. The same on all ranks.
  virtual Json state() const { return {}; }
  virtual void restore(const Json&) {}
  // Another model that the loss trains, with an optimizer state of its own: a value model. Checkpoints have it in the
  // folder "value".
  virtual std::shared_ptr<BaseModule> trained_along() const { return nullptr; }
  // After a step of the optimizer, before it is saved or evaluated; `step` counts from 1.
  virtual void after_step(const BaseModule&, int64_t) {}
  // A reference whose weights change: checkpoints have it in the folder "reference".
  virtual std::shared_ptr<const BaseModule> moving_reference() const { return nullptr; }
  // Models that a step also runs forward, from prepare() on: a reference, a teacher.
  virtual std::vector<const BaseModule*> other_models() const { return {}; }
  // Whether a step also runs the model without its adapters, forward: as a reference. From prepare() on.
  virtual bool runs_base() const { return false; }
};

// The objective's, of rows without the columns that the arguments drop.
data::Transform transform_of(const Objective& objective, const AutoTokenizer& tokenizer,
                             const TrainingArguments& arguments);
// How an objective that packs does it. max_length is 0 where it does not.
data::PackOptions packing_of(const Objective& objective, const TrainingArguments& arguments);

// What objectives share.
// Labels that count: -100 and the first token of a document predict nothing.
double count_targets(const BatchRow& row);
// Whether the routers' loss is requested: by its switch, or by a coefficient.
bool wants_router_loss(const TrainingArguments& arguments);
// Where a forward has router logits: adds their auxiliary loss times its coefficient (the arguments', else the
// model's), and reports aux_loss, router/load_max (the rows of the busiest expert over the mean) and router/entropy (of
// the routers' probabilities), both over all layers. token_mask [B, T], zero: does not count. All are means over this
// minibatch, which is `share` of the step.
void add_router_loss(ObjectiveLoss& loss, const BaseModule& model, const LossConfig& config,
                     const at::Tensor& token_mask, const ModelOutput& out, double share);
// Numbers of an example as a tensor, and back. They are float32.
data::Floats to_floats(const at::Tensor& values);
at::Tensor to_tensor(const data::Floats& floats);
// The cross-entropy of labels, over the items of the step; with loss_type "dft" each token's times its own probability.
// Its accuracy and that of the routers, where there are some.
ObjectiveLoss language_model_loss(const BaseModule& model, ModelInputs inputs, const LossContext& context);
// ConfigError unless `other`, called `what`, lies on the model's mesh, so that a rank has the same rows in both.
void require_same_mesh(const BaseModule& model, const BaseModule& other, const std::string& what);

// "sft", "base": the next token. "classification": what a row is.
std::unique_ptr<Objective> make_causal_lm_objective();
// "sft", "base" of an encoder-decoder: what its decoder writes for what its encoder reads.
std::unique_ptr<Objective> make_seq2seq_objective();
// The same for a speech model: the text of a recording.
std::unique_ptr<Objective> make_speech_objective(WhisperFeatureExtractor extractor, const BaseConfig& config);
// And for a vision-language model: text about images.
std::unique_ptr<Objective> make_vision_objective(VisionProcessor processor);
// "embedding": vectors of texts, near each other where the texts belong together.
std::unique_ptr<Objective> make_embedding_objective();
// "contrastive": texts and images that belong together, near each other.
std::unique_ptr<Objective> make_contrastive_objective(ImageProcessor processor, const BaseConfig& config);
std::unique_ptr<Objective> make_classification_objective();
// "classification" of images.
std::unique_ptr<Objective> make_image_classification_objective(ImageProcessor processor);
// "dpo": pairs of answers, against a reference. It may be absent when reference_free is set, when the rows carry
// ref_chosen_logps and ref_rejected_logps, and with precompute_ref_log_probs, which takes the model as it begins.
std::unique_ptr<Objective> make_dpo_objective(std::shared_ptr<const BaseModule> reference = nullptr);
// "kto", "bco": answers that are wanted or not, against a reference. "cpo": pairs of answers without one.
std::unique_ptr<Objective> make_kto_objective(std::shared_ptr<const BaseModule> reference);
std::unique_ptr<Objective> make_bco_objective(std::shared_ptr<const BaseModule> reference);
std::unique_ptr<Objective> make_cpo_objective();
// "orpo": pairs of answers without a reference. "reward": a number for each answer, the chosen one's higher.
std::unique_ptr<Objective> make_orpo_objective();
std::unique_ptr<Objective> make_reward_objective();
// "prm": whether each step of an answer is right.
std::unique_ptr<Objective> make_prm_objective();
// "distillation": the distribution of a teacher with the same vocabulary.
std::unique_ptr<Objective> make_distillation_objective(std::shared_ptr<const BaseModule> teacher);

}  // namespace easydel
