#include "easydel/sharding/collectives/weight_prefetcher.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace easydel {

bool WeightPrefetcher::Kept::is_of(const at::Tensor& part) const {
  const auto memory = storage.lock();
  return memory && memory.get() == part.storage().unsafeGetStorageImpl() && offset == part.storage_offset() &&
         gathered == part._version();
}

void WeightPrefetcher::set_keep(bool keep) {
  keep_ = keep;
  kept_.clear();
}

void WeightPrefetcher::begin_step() {
  drop();
  // An optimizer step invalidates everything.
  std::erase_if(kept_, [](const auto& entry) {
    return entry.second.storage.expired() || entry.second.version.current_version() != entry.second.gathered;
  });
  // A forward pass alone is the beginning of a known step.
  const bool is_beginning =
      seen_.size() <= order_.size() && std::equal(seen_.begin(), seen_.end(), order_.begin(),
                                                  [](const Visit& a, const Visit& b) { return a.weight == b.weight; });
  if (!is_beginning) order_ = std::move(seen_);
  seen_.clear();
  next_ = 0;
}

void WeightPrefetcher::forget() {
  drop();
  kept_.clear();
  order_.clear();
  seen_.clear();
  next_ = 0;
}

void WeightPrefetcher::drop() {
  for (Prefetched& a : prefetched_) a.gathering.pending->wait();
  prefetched_.clear();
  prefetched_bytes_ = 0;
}

at::Tensor WeightPrefetcher::gather(const WeightSharding& weight, const at::Tensor& part, at::ScalarType dtype) {
  if (!keep_) return gather_or_take(weight, part, dtype);
  const auto key = std::pair(&weight, dtype);
  if (const auto found = kept_.find(key); found != kept_.end()) {
    // A new tensor object: autograd modifies its metadata.
    if (found->second.is_of(part)) return found->second.whole.detach();
    kept_.erase(found);
  }
  const at::Tensor whole = gather_or_take(weight, part, dtype);
  kept_.emplace(key, Kept{whole.detach(), WeakStorage(part.storage().getWeakStorageImpl()), part.storage_offset(),
                          part.unsafeGetTensorImpl()->version_counter(), static_cast<uint32_t>(part._version())});
  return whole;
}

at::Tensor WeightPrefetcher::gather_or_take(const WeightSharding& weight, const at::Tensor& part,
                                            at::ScalarType dtype) {
  const auto now = [&] { return weight.gather_over(part.detach().to(dtype), weight.gathered_, weight.union_); };
  if (budget_ == 0) return now();
  seen_.push_back({&weight, WeakTensor(part.getIntrusivePtr()), dtype});
  if (next_ >= order_.size() || order_[next_].weight != &weight || order_[next_].dtype != dtype) {
    drop();
    next_ = order_.size();  // no prefetching until the next step
    return now();
  }
  // The tensor object may differ from last time, and in-place changes count too.
  Visit& visit = order_[next_];
  const std::size_t place = next_++;
  at::Tensor result;
  if (!prefetched_.empty() && prefetched_.front().visit == place) {
    Prefetched a = std::move(prefetched_.front());
    prefetched_.pop_front();
    prefetched_bytes_ -= a.bytes;
    const auto sent = visit.part.lock();
    result = WeightSharding::finish(std::move(a.gathering));
    if (sent.get() != part.unsafeGetTensorImpl() || a.version != part._version()) result.reset();
  }
  visit.part = WeakTensor(part.getIntrusivePtr());
  prefetch(next_);
  return result.defined() ? result : now();
}

void WeightPrefetcher::prefetch(std::size_t next) {
  if (!prefetched_.empty()) next = prefetched_.back().visit + 1;
  for (; next < order_.size(); ++next) {
    const Visit& visit = order_[next];
    const int64_t bytes = visit.weight->gathered_numel() * static_cast<int64_t>(c10::elementSize(visit.dtype));
    if (!prefetched_.empty() && prefetched_bytes_ + bytes > budget_) return;
    const auto impl = visit.part.lock();
    if (!impl) return;
    const at::Tensor part(impl);
    prefetched_.push_back(
        {next, static_cast<uint32_t>(part._version()), bytes,
         visit.weight->start(part.detach().to(visit.dtype), visit.weight->gathered_, visit.weight->union_)});
    prefetched_bytes_ += bytes;
  }
}

}  // namespace easydel
