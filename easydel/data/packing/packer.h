// Packs a finite sequence of documents, in order: for evaluation.
#pragma once

#include <deque>
#include <functional>
#include <optional>

#include "easydel/data/packing/packing.h"

namespace easydel::data {

class Packer {
 public:
  using Documents = std::function<std::optional<Example>()>;  // nullopt: the end

  // ConfigError when pack.max_length is 0.
  Packer(PackOptions pack, Documents documents);

  // A row like those of Stream; the last one may be short. Nullopt at the end. Every token of a document that is not
  // split has the same loss as in a row by itself.
  std::optional<Example> next();

 private:
  std::optional<Example> next_wrapped();
  std::optional<Example> next_in_blocks();

  PackOptions pack_;
  Documents documents_;
  std::optional<Example> document_;  // the one being packed
  int64_t offset_ = 0;               // number of its tokens already in rows
  std::deque<Example> rows_;         // of a block, those not yet returned
};

}  // namespace easydel::data
