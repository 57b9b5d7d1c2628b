// Pairs of answers as rows of a batch: row 2i is the chosen one, row 2i + 1 the rejected one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "easydel/data/rows/example.h"
#include "easydel/trainers/objectives/objective.h"

namespace easydel {

// How long a pair's rows may be. Without max_prompt_length a row is cut at max_length as a whole, as trl does; with it
// the prompt is cut first, and answers get what is left.
struct PairLimits {
  std::optional<int64_t> max_length, max_prompt_length, max_completion_length;
  std::string truncation_mode = "keep_end";  // which part of a prompt, or of a row, stays

  std::optional<int64_t> whole() const { return max_prompt_length ? std::nullopt : max_length; }
  // ConfigError when a prompt may leave no room for an answer.
  void validate(const std::string& trainer_type) const;
};

// Puts the ids of a prompt before those of an answer, with labels only for the answer, within the limits.
struct LabelledIds {
  std::vector<int64_t> ids, labels;
};
LabelledIds join_answer(std::vector<int64_t> prompt, std::vector<int64_t> answer, const PairLimits& limits);

// How orpo and cpo read pairs. Rows whose prompt leaves no room for an answer are skipped.
data::Transform reference_free_pairs(const std::string& trainer_type, const AutoTokenizer& tokenizer,
                                     const PairLimits& limits);
// A row of ids of which those with a label are an answer, with the numbers "counts", "prompt_tokens" and
// "completion_tokens" that pair_rows describes.
BatchRow answer_row(std::vector<int64_t> ids, std::vector<int64_t> labels);
// Rows first, first + step, … of a batch.
Batch every_row(const Batch& batch, int64_t first, int64_t step);

// The rows of an example that has chosen_ids, chosen_labels, rejected_ids, rejected_labels. Their numbers: "counts" (1
// for a row that is there), "prompt_tokens" (those before the first label), "completion_tokens", and "nll_tokens", what
// a chosen row predicts in all; 0 for rejected ones.
std::vector<BatchRow> pair_rows(const data::Example& example);
// ConfigError, which begins with `what`, unless the id is one of the model's vocabulary.
void require_token(const BaseModule& model, std::optional<int64_t> id, const std::string& what);
// Half of the rows that count.
double count_pairs(const std::vector<BatchRow>& rows);

struct RowLogps {
  at::Tensor tokens;      // [rows, T]: log-probabilities of the labels that follow; 0 where there is none
  ObjectiveLoss routers;  // what they add; no loss where there are none

  at::Tensor sums() const;
  void add_routers(ObjectiveLoss& out) const;
};
// Of the whole batch, on every rank.
RowLogps row_logps(const BaseModule& model, const Batch& batch, const LossContext& context, bool with_dropout);

// The rows of a batch one after another, as one row of each rank that has different ones: nothing is computed of their
// padding. Rows have the numbers of answer_row.
class JoinedRows {
 public:
  JoinedRows(const Batch& batch, const Parallel* parallel);
  const Batch& batch() const { return batch_; }  // without numbers and series
  // Values of its tokens [ranks, N] as those of the rows [rows, T]; 0 for padding.
  at::Tensor as_rows(const at::Tensor& values) const;

 private:
  Batch batch_;
  at::Tensor from_, to_;  // places of the tokens among those of the joined rows, and of the rows
  int64_t rows_, width_;
};

// Values of rows [2P, ...] by what they are: [P, ...] each.
struct ByAnswer {
  at::Tensor chosen, rejected;
};
ByAnswer by_answer(const at::Tensor& rows);
// A number of the batch's rows, in the type of `like`.
at::Tensor number_like(const Batch& batch, const std::string& name, const at::Tensor& like);

// Means over the pairs of the step that count: of one minibatch, its share of them.
class PairMean {
 public:
  PairMean(const Batch& batch, const LossContext& context, const at::Tensor& like);
  at::Tensor operator()(const at::Tensor& values) const;  // [P]

 private:
  at::Tensor weights_;
};

// rewards/chosen, rewards/rejected, rewards/accuracies, rewards/margins.
void add_reward_metrics(const at::Tensor& chosen, const at::Tensor& rejected, const PairMean& mean,
                        std::map<std::string, at::Tensor>& metrics);

}  // namespace easydel
