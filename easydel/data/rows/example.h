// The input of a trainer: token ids and related columns, as examples and as a padded batch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "easydel/data/sources/source.h"

namespace easydel::data {

inline constexpr int64_t kNoLoss = -100;   // the label of tokens without loss
inline constexpr int64_t kNoSegment = -1;  // the segment of padding

// Numbers other than tokens: pixels of an image, features of a recording.
struct Floats {
  std::vector<int64_t> shape;
  std::vector<float> values;
  friend bool operator==(const Floats&, const Floats&) = default;
};

struct Example {
  std::vector<int64_t> input_ids, labels;
  std::vector<int64_t> segment_ids, position_ids;      // of packed documents: the document, and the position in it
  std::map<std::string, std::vector<int64_t>> others;  // such as "chosen_ids"
  std::map<std::string, double> numbers;               // such as "margin"
  std::map<std::string, Floats> tensors;               // such as "pixel_values"
  Json row;                                            // of prompts: what rewards look at
  friend bool operator==(const Example&, const Example&) = default;
};

// Converts a row to an example; nullopt to skip the row.
using Transform = std::function<std::optional<Example>(const Row&)>;

struct Column {
  int64_t width = 0;
  std::vector<int64_t> values;  // rows * width
  std::vector<double> numbers;  // instead of values, one per row
};

struct Batch {
  int64_t rows = 0;
  std::map<std::string, Column> columns;
};

struct CollateOptions {
  int64_t pad_token_id = 0;
  std::optional<int64_t> pad_to;  // pads every row to this length; otherwise to the longest
  int64_t pad_to_multiple_of = 1;
  bool pad_left = false;
  std::optional<int64_t> max_length;  // of prompt and completion together, in a preference batch
  bool keep_end = false;              // what truncation keeps, in a preference batch
};

// input_ids, attention_mask and labels; segment_ids and position_ids if the examples have them; every other column,
// padded with the pad token if its name ends in _ids, with -100 for _labels, else with 0. Prompts are padded on the
// left, all else on the right.
Batch collate(const std::vector<Example>& examples, const CollateOptions& options);

// Twice as many rows, the chosen ones first: input_ids, attention_mask, and completion_mask if there are prompts.
Batch collate_preference(const std::vector<Example>& examples, const CollateOptions& options);

}  // namespace easydel::data
