// Batches for training, prefetched in the background, with exact resumption.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/data/dataset.h"
#include "easydel/data/order/stream.h"
#include "easydel/data/rows/example.h"

namespace easydel::data {

struct LoaderOptions {
  int64_t streams = 1;       // rows of the global batch
  std::vector<int64_t> own;  // those that this loader yields; empty: all
  PackOptions pack;
  int64_t prefetch = 4;  // examples prefetched for each stream; 0: created on demand
  int64_t workers = 2;   // threads; 0: created on demand
};

// What stream s yields depends only on the data set, the transform, and s: not on which streams share a loader.
class Loader {
 public:
  // ConfigError on invalid options.
  Loader(std::shared_ptr<const Dataset> dataset, Transform transform, LoaderOptions options);
  ~Loader();
  Loader(Loader&&) = delete;

  // One example for each of the own streams, in their order. Rethrows a worker's exception at the step it belongs to;
  // after that every call throws it again.
  std::vector<Example> next();

  // The state after what the caller consumed; prefetched examples do not count. Small: two numbers for each stream.
  Json state() const;
  // Resumes after `state`, which has at least the own streams: that of another loader over the same data, or several
  // merged. ConfigError when it is from different data or options.
  void restore(const Json& state);

  int64_t step() const;               // the number of calls of next, restored ones included
  int64_t examples_of_epoch() const;  // rows of an epoch before the transform skips any, and before packing

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Merges the states of loaders with different streams.
Json merge_states(const std::vector<Json>& states);

}  // namespace easydel::data
