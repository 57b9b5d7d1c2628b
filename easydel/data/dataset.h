// Data sets, mixed and shuffled: an endless sequence of rows in which every position can be asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/data/options.h"
#include "easydel/data/order/mixture_order.h"
#include "easydel/data/sources/source.h"

namespace easydel::data {

// Any thread may ask for any position.
class Dataset {
 public:
  // Opens files and applies limits and filters. ConfigError, IoError, FormatError.
  static std::shared_ptr<const Dataset> open(const MixtureOptions& options);
  // Of sources that are open already; `options.informs` is not looked at, but for names and weights.
  Dataset(std::vector<SourcePtr> sources, const MixtureOptions& options);

  Row at(int64_t position) const;  // of the endless sequence; a function of (seed, position)
  int64_t epoch_size() const { return order_->epoch_size(); }  // positions until every row was there, or as it is set

  // Every row once, in order, one data set after the other: for evaluation.
  int64_t size() const { return all_->size(); }
  Row row(int64_t index) const { return {all_->row(index), all_.get(), index}; }

  const MixtureOrder& order() const { return *order_; }
  uint64_t seed() const { return seed_; }
  bool is_shuffled() const { return window_ > 0; }
  // What a position depends on: seed, sizes, weights, shuffle; names and digests of rows, to tell changed data. Reads
  // up to 256 rows of each data set. data_changes.h compares two.
  Json fingerprint() const;

 private:
  int64_t shuffled(std::size_t dataset, int64_t epoch, int64_t index) const;

  std::vector<SourcePtr> sources_;
  std::vector<std::string> names_, labels_;  // of weights; of messages
  SourcePtr all_;
  std::unique_ptr<const MixtureOrder> order_;
  uint64_t seed_;
  int64_t window_ = 0;  // 0: no shuffle
  mutable std::mutex mutex_;
  mutable Json fingerprint_;  // once it was asked for
};

}  // namespace easydel::data
