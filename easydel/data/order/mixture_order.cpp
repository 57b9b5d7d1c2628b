#include "easydel/data/order/mixture_order.h"

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/data/order/permutation.h"

namespace easydel::data {
namespace {

constexpr std::size_t kKeptBlocks = 64;

std::vector<int64_t> counts_in_block(const MixtureOrderOptions& options, const std::vector<std::string>& names) {
  double total = 0;
  for (std::size_t i = 0; i < options.weights.size(); ++i) {
    require<ConfigError>(options.weights[i] >= 0 && std::isfinite(options.weights[i]),
                         "[mixture_weights] a weight must be a non-negative number; got ", options.weights[i],
                         " for \"", names[i], "\".");
    total += options.weights[i];
  }
  require<ConfigError>(total > 0, "[mixture_weights] at least one weight must be above 0; got 0 for all of ",
                       names.size(), " data sets.");
  std::vector<int64_t> counts;
  int64_t left = options.block_size;
  for (const double weight : options.weights) {
    // Rounds a share that is an integer up to rounding error.
    counts.push_back(
        static_cast<int64_t>(std::floor(weight / total * static_cast<double>(options.block_size) * (1 + 1e-12))));
    left -= counts.back();
  }
  const auto heaviest = std::max_element(options.weights.begin(), options.weights.end()) - options.weights.begin();
  counts[static_cast<std::size_t>(heaviest)] += left;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    require<ConfigError>(counts[i] > 0 || options.weights[i] == 0, "[mixture_block_size] a block of ",
                         options.block_size, " rows has none of \"", names[i], "\", whose weight is ",
                         options.weights[i], " of ", total, ". Use at least ",
                         static_cast<int64_t>(std::ceil(total / options.weights[i])), ".");
  }
  return counts;
}

}  // namespace

MixtureOrder::MixtureOrder(MixtureOrderOptions options, const std::vector<std::string>& names)
    : options_(std::move(options)) {
  const std::size_t count = options_.sizes.size();
  require<ConfigError>(count > 0, "[mixture] informs must name at least one data set; got none.");
  if (options_.round_robin) {
    options_.weights.assign(count, 1);
    options_.block_size = static_cast<int64_t>(count);
  }
  require<ConfigError>(options_.block_size > 0, "[mixture_block_size] must be above 0; got ", options_.block_size, ".");
  require<ConfigError>(options_.block_size <= (int64_t{1} << 24), "[mixture_block_size] must be at most ",
                       int64_t{1} << 24, "; got ", options_.block_size, ".");
  counts_ = counts_in_block(options_, names);
  for (std::size_t i = 0; i < count; ++i) {
    require<ConfigError>(options_.sizes[i] > 0, "[mixture] data set \"", names[i], "\" has no rows.");
    if (counts_[i] == 0) continue;
    const int64_t end =
        options_.stop_at_first ? position_of(i, options_.sizes[i]) : position_of(i, options_.sizes[i] - 1) + 1;
    if (epoch_size_ == 0) epoch_size_ = end;
    epoch_size_ = options_.stop_at_first ? std::min(epoch_size_, end) : std::max(epoch_size_, end);
  }
}

std::shared_ptr<const MixtureOrder::Block> MixtureOrder::block(int64_t number) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(number);
    if (found != blocks_.end()) return found->second;
  }
  auto made = std::make_shared<Block>();
  std::vector<uint32_t> in_order;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    in_order.insert(in_order.end(), static_cast<std::size_t>(counts_[i]), static_cast<uint32_t>(i));
  }
  const Permutation order(options_.block_size, make_key(options_.seed, "mixture", 0, static_cast<uint64_t>(number)));
  std::vector<uint32_t> seen(counts_.size());
  for (int64_t i = 0; i < options_.block_size; ++i) {
    const uint32_t dataset = in_order[static_cast<std::size_t>(options_.round_robin ? i : order(i))];
    made->dataset.push_back(dataset);
    made->rank.push_back(seen[dataset]++);
  }
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = blocks_.emplace(number, made);
  if (is_new) kept_.push_back(number);
  if (kept_.size() > kKeptBlocks) {
    blocks_.erase(kept_.front());
    kept_.pop_front();
  }
  return made;
}

int64_t MixtureOrder::position_of(std::size_t dataset, int64_t row) const {
  const int64_t number = row / counts_[dataset];
  const auto rank = static_cast<uint32_t>(row % counts_[dataset]);
  const auto found = block(number);
  for (int64_t i = 0;; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (found->dataset[at] == dataset && found->rank[at] == rank) return number * options_.block_size + i;
  }
}

MixtureOrder::Place MixtureOrder::at(int64_t position) const {
  // If an epoch ends with the first data set, all restart with the next one.
  const int64_t passes = options_.stop_at_first ? position / epoch_size_ : 0;
  const int64_t inside = options_.stop_at_first ? position % epoch_size_ : position;
  std::size_t dataset = 0;
  int64_t row = inside;
  if (counts_.size() > 1) {
    const auto found = block(inside / options_.block_size);
    const auto at = static_cast<std::size_t>(inside % options_.block_size);
    dataset = found->dataset[at];
    row = inside / options_.block_size * counts_[dataset] + found->rank[at];
  }
  return {.dataset = dataset, .epoch = passes + row / options_.sizes[dataset], .index = row % options_.sizes[dataset]};
}

}  // namespace easydel::data
