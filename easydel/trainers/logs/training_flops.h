// Floating point operations of training, by what is computed: which weights train, how long the documents are.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "easydel/infra/base_module.h"
#include "easydel/trainers/run/batch.h"

namespace easydel {

// Model FLOPs, as MFU defines them: every matrix product of forward, and in backward the products for the gradients
// that are needed. A frozen weight has no gradient of its own, and nothing flows below the first weight that trains.
// Padding is not counted, a token attends to its own document up to itself, only a token's own experts count, and
// what gradient checkpointing computes again counts once.
class TrainingFlops {
 public:
  // Holds on to the model's layers. Create it again after adapters or frozen weights have changed.
  explicit TrainingFlops(const BaseModule& model, bool has_backward = true, bool with_adapters = true);

  // Of a document with this many tokens.
  double of_document(int64_t tokens) const;
  // Of all documents of the rows: those of their segment_ids, else the rows themselves.
  double of_rows(const std::vector<BatchRow>& rows) const;

 private:
  class Counter;
  struct Scores {
    const Module* module;
    double passes;  // 1: only forward, 3: with all of backward
  };
  double per_token_ = 0, per_document_ = 0;
  std::vector<Scores> scores_;
  mutable std::map<int64_t, double> known_;  // what of_document said
};

}  // namespace easydel
