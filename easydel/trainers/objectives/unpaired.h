// Answers that are wanted or not, each by itself, as rows of a batch: kto and bco.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "easydel/trainers/objectives/pairs.h"

namespace easydel {

// input_ids, labels of the answer alone, and the number label. Rows whose prompt leaves no room for an answer are
// skipped.
data::Transform unpaired_answers(const std::string& trainer_type, const AutoTokenizer& tokenizer,
                                 const PairLimits& limits);

// An answer_row with the numbers "wanted" and "unwanted", one of which is 1.
BatchRow unpaired_row(const data::Example& example);

// Rows that are there.
double count_rows(const std::vector<BatchRow>& rows);

// Rewards and log-probabilities [rows] of both kinds of answers: their means over the step, and how far the rewards lie
// apart. A kind that the step lacks has none.
void add_unpaired_metrics(const at::Tensor& rewards, const at::Tensor& logps, const Batch& batch,
                          const LossContext& context, std::map<std::string, at::Tensor>& metrics);

}  // namespace easydel
