// Packs a sequence of documents that ends, in order: for evaluation.
#pragma once

#include <deque>
#include <functional>
#include <optional>

#include "easydel/data/packing/packing.h"

namespace easydel::data {

class Packer {
 public:
  using Documents = std::function<std::optional<Example>()>;  // nothing: there are no more

  // ConfigError when pack.max_length is 0.
  Packer(PackOptions pack, Documents documents);

  // A row like those of Stream; the last one may be short. Nothing at the end. Every token of a document that is not
  // split has the loss that it has in a row of its own.
  std::optional<Example> next();

 private:
  std::optional<Example> next_wrapped();
  std::optional<Example> next_in_blocks();

  PackOptions pack_;
  Documents documents_;
  std::optional<Example> document_;  // the one that is being placed
  int64_t offset_ = 0;               // how many of its tokens are in rows already
  std::deque<Example> rows_;         // of a block, those that were not taken yet
};

}  // namespace easydel::data
