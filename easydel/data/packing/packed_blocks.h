// The rows that bfd makes of a data set: of every `documents` positions in a row, those of one epoch.
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

// A block depends on the data set, the transform and its number alone. Any thread may ask for any of them; what one
// makes others wait for, and the last ones are kept.
class PackedBlocks {
 public:
  using Block = std::shared_ptr<const std::vector<Example>>;
  // Blocks are kept until they have more than `rows_kept` rows together.
  PackedBlocks(std::shared_ptr<const Dataset> dataset, Transform transform, const PackOptions& options,
               int64_t rows_kept);

  // May be empty, where the transform leaves out all of it. In a data set that is shuffled the rows are, too: the
  // longest documents would come first otherwise.
  Block at(int64_t number);
  int64_t rows_in(int64_t number);  // remembered for all that were asked for
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
