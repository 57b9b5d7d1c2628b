#include "easydel/data/packing/packed_blocks.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>

#include "easydel/core/error.h"
#include "easydel/data/order/permutation.h"

namespace easydel::data {

PackedBlocks::PackedBlocks(std::shared_ptr<const Dataset> dataset, Transform transform, const PackOptions& options,
                           int64_t rows_kept)
    : dataset_(std::move(dataset)), transform_(std::move(transform)), options_(options), rows_kept_(rows_kept) {
  require<ConfigError>(options_.documents > 0 && options_.threads > 0,
                       "[packing] documents and threads must be above 0; got ", options_.documents, " and ",
                       options_.threads, ".");
}

int64_t PackedBlocks::blocks_of_epoch() const {
  return (dataset_->epoch_size() + options_.documents - 1) / options_.documents;
}

std::vector<Example> PackedBlocks::make(int64_t number) const {
  const int64_t epoch = number / blocks_of_epoch(), inside = number % blocks_of_epoch();
  const int64_t begin = epoch * dataset_->epoch_size() + inside * options_.documents;
  const int64_t count = std::min(options_.documents, dataset_->epoch_size() - inside * options_.documents);
  std::vector<std::optional<Example>> made(static_cast<std::size_t>(count));
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count));
  const auto work = [&](int64_t first) {
    for (int64_t i = first; i < count; i += options_.threads) {
      const auto place = static_cast<std::size_t>(i);
      try {
        made[place] = transform_(dataset_->at(begin + i));
      } catch (...) {
        errors[place] = std::current_exception();
        return;
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int64_t t = 1; t < std::min(options_.threads, count); ++t) threads.emplace_back(work, t);
    work(0);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  std::vector<Example> documents;
  for (std::optional<Example>& example : made) {
    if (example && (!example->input_ids.empty() || !example->others.empty())) documents.push_back(std::move(*example));
  }
  if (options_.sorts) {
    sort_by_length(documents);
    return documents;
  }
  std::vector<Example> rows = pack_documents(documents, options_);
  if (!dataset_->is_shuffled() || rows.size() < 2) return rows;
  const Permutation order(static_cast<int64_t>(rows.size()),
                          make_key(dataset_->seed(), "packed", 0, static_cast<uint64_t>(number)));
  std::vector<Example> shuffled;
  for (std::size_t i = 0; i < rows.size(); ++i)
    shuffled.push_back(std::move(rows[static_cast<std::size_t>(order(static_cast<int64_t>(i)))]));
  return shuffled;
}

PackedBlocks::Block PackedBlocks::at(int64_t number) {
  std::unique_lock lock(mutex_);
  if (const auto found = held_.find(number); found != held_.end()) {
    const std::shared_future<Block> block = found->second;
    lock.unlock();
    return block.get();
  }
  std::promise<Block> promise;
  held_.emplace(number, promise.get_future().share());
  lock.unlock();
  Block block;
  try {
    block = std::make_shared<const std::vector<Example>>(make(number));
  } catch (...) {
    promise.set_exception(std::current_exception());
    lock.lock();
    held_.erase(number);
    throw;
  }
  promise.set_value(block);
  lock.lock();
  sizes_[number] = static_cast<int64_t>(block->size());
  order_.push_back(number);
  rows_held_ += sizes_[number];
  while (order_.size() > 1 && rows_held_ > rows_kept_) {
    rows_held_ -= sizes_[order_.front()];
    held_.erase(order_.front());
    order_.erase(order_.begin());
  }
  return block;
}

int64_t PackedBlocks::rows_in(int64_t number) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = sizes_.find(number); found != sizes_.end()) return found->second;
  }
  return static_cast<int64_t>(at(number)->size());
}

}  // namespace easydel::data
