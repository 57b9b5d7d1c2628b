// The packed rows of bfd, or rows sorted by length: a block is `documents` consecutive positions of one epoch.
#pragma once

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "easydel/data/dataset.h"
#include "easydel/data/packing/packing.h"

namespace easydel::data {

// A block depends only on the data set, the transform and its number. Thread-safe: a block is computed once while
// others wait for it, and the last ones are kept.
class PackedBlocks {
 public:
  using Block = std::shared_ptr<const std::vector<Example>>;
  // Blocks are kept until they have more than `rows_kept` rows together.
  PackedBlocks(std::shared_ptr<const Dataset> dataset, Transform transform, const PackOptions& options,
               int64_t rows_kept);

  // May be empty, if the transform skips all of it. If the data set is shuffled, so are the packed rows: otherwise the
  // longest documents would come first.
  Block at(int64_t number);
  int64_t rows_in(int64_t number);  // cached for every block requested
  int64_t blocks_of_epoch() const;

 private:
  std::vector<Example> make(int64_t number) const;

  std::shared_ptr<const Dataset> dataset_;
  Transform transform_;
  PackOptions options_;
  int64_t rows_kept_, rows_held_ = 0;
  std::mutex mutex_;
  std::map<int64_t, std::shared_future<Block>> held_;
  std::map<int64_t, int64_t> sizes_;  // by block
  std::vector<int64_t> order_;        // of held_, the oldest first
};

}  // namespace easydel::data
