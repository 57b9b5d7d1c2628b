// Batches for training, made ahead of time in the background, that can be continued bit for bit.
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
  std::vector<int64_t> own;  // those that this loader makes; empty: all
  PackOptions pack;
  int64_t prefetch = 4;  // examples that are kept ready for each stream; 0: made when they are asked for
  int64_t workers = 2;   // threads; 0 likewise
};

// What stream s yields depends on the data set, the transform, and s alone: not on which streams share a loader.
class Loader {
 public:
  // ConfigError on options that make no sense.
  Loader(std::shared_ptr<const Dataset> dataset, Transform transform, LoaderOptions options);
  ~Loader();
  Loader(Loader&&) = delete;

  // One example for each of the own streams, in their order. Throws what a worker threw, at the step where it is due;
  // after that every call throws it again.
  std::vector<Example> next();

  // After what the caller took; what is only ready does not count. Small: two numbers for each stream.
  Json state() const;
  // Goes on after `state`, which has at least the own streams: that of another loader over the same data, or several
  // merged. ConfigError when it was made from other data or with other options.
  void restore(const Json& state);

  int64_t step() const;               // how often next was called, restored ones included
  int64_t examples_of_epoch() const;  // rows of an epoch before a transform leaves out any, and before packing

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The states of loaders that have different streams, as one.
Json merge_states(const std::vector<Json>& states);

}  // namespace easydel::data
