// Mixed and shuffled data sets: an endless sequence of rows with random access by position.
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

// Thread-safe.
class Dataset {
 public:
  // Opens files and applies limits and filters. ConfigError, IoError, FormatError.
  static std::shared_ptr<const Dataset> open(const MixtureOptions& options);
  // From open sources; of `options.informs` only names and weights are used.
  Dataset(std::vector<SourcePtr> sources, const MixtureOptions& options);

  Row at(int64_t position) const;  // of the endless sequence; a function of (seed, position)
  int64_t epoch_size() const { return order_->epoch_size(); }  // positions until every row was seen, or as configured

  // Every row once, in order, one data set after the other: for evaluation.
  int64_t size() const { return all_->size(); }
  Row row(int64_t index) const { return {all_->row(index), all_.get(), index}; }

  const MixtureOrder& order() const { return *order_; }
  uint64_t seed() const { return seed_; }
  bool is_shuffled() const { return window_ > 0; }
  // Everything that determines the order: seed, sizes, weights, shuffle; names and digests of rows, to detect changed
  // data. Reads up to 256 rows of each data set. data_changes.h compares two.
  Json fingerprint() const;

 private:
  int64_t shuffled(std::size_t dataset, int64_t epoch, int64_t index) const;

  std::vector<SourcePtr> sources_;
  std::vector<std::string> names_, labels_;  // for weights; for messages
  SourcePtr all_;
  std::unique_ptr<const MixtureOrder> order_;
  uint64_t seed_;
  int64_t window_ = 0;  // 0: no shuffle
  mutable std::mutex mutex_;
  mutable Json fingerprint_;  // computed on first use
};

}  // namespace easydel::data
