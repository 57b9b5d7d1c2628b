// The data set, and the row of it, at a position of the endless mixture.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace easydel::data {

struct MixtureOrderOptions {
  std::vector<int64_t> sizes;   // rows of each data set
  std::vector<double> weights;  // one for each
  int64_t block_size = 2048;
  uint64_t seed = 0;
  bool stop_at_first = false;  // an epoch ends with the first data set that is exhausted
  bool round_robin = false;    // round robin, not random; weights and block_size are ignored
};

// Blocks of block_size positions contain each data set in proportion to its weight (the rounding remainder goes to the
// heaviest, as in EasyDeL), in an order that depends on (seed, block). Within a data set rows come in order.
// Thread-safe.
class MixtureOrder {
 public:
  // ConfigError on weights that are negative, not finite or all zero, and on a block too small for one of them.
  MixtureOrder(MixtureOrderOptions options, const std::vector<std::string>& names);

  struct Place {
    std::size_t dataset = 0;
    int64_t epoch = 0;  // complete passes over this data set before
    int64_t index = 0;  // in this pass
  };
  Place at(int64_t position) const;

  // Positions in an epoch: until every row was seen, or until the first data set is exhausted.
  int64_t epoch_size() const { return epoch_size_; }
  const std::vector<int64_t>& counts() const { return counts_; }  // in a block

 private:
  struct Block {
    std::vector<uint32_t> dataset;  // at each position of the block
    std::vector<uint32_t> rank;     // how many of the same data set precede it in the block
  };
  std::shared_ptr<const Block> block(int64_t number) const;
  int64_t position_of(std::size_t dataset, int64_t row) const;

  MixtureOrderOptions options_;
  std::vector<int64_t> counts_;
  int64_t epoch_size_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<int64_t, std::shared_ptr<const Block>> blocks_;
  mutable std::deque<int64_t> kept_;  // their numbers, the oldest first
};

}  // namespace easydel::data
