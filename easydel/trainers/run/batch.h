// The rows of one step as tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace easydel {

class Parallel;
struct ModelInputs;

// A row of the model's batch. Shorter ones are filled up on the right; empty lists mean "as usual".
struct BatchRow {
  std::vector<int64_t> input_ids;
  std::vector<int64_t> labels;       // -100: ignored in the loss
  std::vector<int64_t> segment_ids;  // of packed documents
  std::vector<int64_t> position_ids;
  std::vector<double> targets;                        // of a classifier: a class, or numbers
  std::map<std::string, double> numbers;              // other values of a row that an objective needs
  std::map<std::string, std::vector<double>> series;  // the same for each token; shorter ones are filled up with 0
  std::vector<int64_t> target_ids;  // of an encoder-decoder: what it is to write, as long as it is; -100: ignored
  std::map<std::string, at::Tensor> tensors;  // such as pixel_values, of the same shape in all rows
  // Of a text with placeholders, under the model's names: pixel_values, and what says their shapes.
  std::map<std::string, at::Tensor> images;
};

// Adds up the rows' numbers, by name.
void add_numbers(const std::vector<BatchRow>& rows, std::map<std::string, double>& totals);

// Over all minibatches and all ranks. Which numbers a row has depends only on the objective.
std::map<std::string, double> total_numbers(const std::vector<std::vector<BatchRow>>& rows, const Parallel* parallel,
                                            at::Device device);

// The whole batch has the same shape on every rank, and a rank's own rows are filled in; the model looks at no others.
struct Batch {
  at::Tensor input_ids;       // [rows, width]
  at::Tensor labels;          // [rows, width], [rows, longest target_ids], or what a classifier is to predict
  at::Tensor attention_mask;  // undefined: nothing is padding; it and segment_ids are on the CPU
  at::Tensor segment_ids, position_ids;
  at::Tensor host_labels;  // of a batch on a GPU, the tokens' labels once more on the CPU; else undefined
  std::map<std::string, at::Tensor> numbers;  // [rows] in float64, those of all ranks
  std::map<std::string, at::Tensor> series;   // [rows, width], likewise
  std::map<std::string, at::Tensor> tensors;  // [rows, ...] in float32
  // Those of this rank's rows, one after another, padded to the largest; where no row of it has any and one of another
  // rank does, a black one that no placeholder shows. Empty: no rank has any.
  std::map<std::string, at::Tensor> images;
  int64_t tokens = 0;  // without padding, over all ranks

  ModelInputs inputs() const;
  // The first of them alone, where the others only make the batch divide: the model fills up by itself.
  Batch first_rows(int64_t rows) const;
};

// This rank's rows of a batch of that size. ConfigError if it does not divide evenly.
struct OwnRows {
  int64_t first = 0, count = 0;
};
OwnRows own_rows(int64_t rows, const Parallel* parallel);

// What every rank brings, added up (or the largest), over the ranks that have different rows.
std::vector<double> sum_over_batch(std::vector<double> values, const Parallel* parallel, at::Device device);
std::vector<double> max_over_batch(std::vector<double> values, const Parallel* parallel, at::Device device);
double max_over_all(double value, const Parallel* parallel, at::Device device);  // over all ranks
// The texts of all ranks that have different rows, in their order.
std::vector<std::string> gather_texts(const std::string& text, const Parallel* parallel, at::Device device);

// What rank 0 has of it, on all ranks.
std::string broadcast_text(const std::string& text, const Parallel& parallel, at::Device device);

// Of the tokens of these rows, independent of their order: the sum of the rows' 32-bit FNV-1a hashes.
double checksum(const std::vector<BatchRow>& rows);

struct BatchOptions {
  int64_t rows = 0;   // of the whole batch
  int64_t width = 0;  // 0: the longest row of all ranks
  int64_t pad_token_id = 0;
  int64_t multiple = 1;     // the width is rounded up to one of it
  bool joins_rows = false;  // a rank's rows become one, in which each is a document: no padding
  at::Device device = at::kCPU;
};
// `own` are this rank's rows, in order. All ranks call it together.
Batch make_batch(const std::vector<BatchRow>& own, const BatchOptions& options, const Parallel* parallel);

}  // namespace easydel
