// Every row of a data set once, in order: for evaluation.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "easydel/data/dataset.h"
#include "easydel/data/rows/example.h"

namespace easydel::data {

// Step t has the rows t * batch_size … of the data set; the last one may be short. Ranks that share the work each own
// some indices of a batch and take the same number of steps.
class Walk {
 public:
  // `own`: indices in the batch, from 0 on; empty: all.
  Walk(std::shared_ptr<const Dataset> dataset, Transform transform, int64_t batch_size, std::vector<int64_t> own = {});

  int64_t steps() const { return steps_; }
  bool is_done() const { return step_ == steps_; }
  // The examples of one step, fewer if the transform skips rows or the data set ends.
  std::vector<Example> next();

 private:
  std::shared_ptr<const Dataset> dataset_;
  Transform transform_;
  int64_t batch_size_, steps_ = 0, step_ = 0;
  std::vector<int64_t> own_;
};

}  // namespace easydel::data
