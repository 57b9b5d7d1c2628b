#include "easydel/sharding/collectives/gather_ahead.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace easydel {

bool GatherAhead::Kept::is_of(const at::Tensor& part) const {
  const auto memory = storage.lock();
  return memory && memory.get() == part.storage().unsafeGetStorageImpl() && offset == part.storage_offset() &&
         gathered == part._version();
}

void GatherAhead::set_keep(bool keep) {
  keep_ = keep;
  kept_.clear();
}

void GatherAhead::begin_step() {
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

void GatherAhead::forget() {
  drop();
  kept_.clear();
  order_.clear();
  seen_.clear();
  next_ = 0;
}

void GatherAhead::drop() {
  for (Ahead& a : ahead_) a.gathering.pending->wait();
  ahead_.clear();
  ahead_bytes_ = 0;
}

at::Tensor GatherAhead::gather(const WeightSharding& weight, const at::Tensor& part, at::ScalarType dtype) {
  if (!keep_) return gather_now_or_ahead(weight, part, dtype);
  const auto key = std::pair(&weight, dtype);
  if (const auto found = kept_.find(key); found != kept_.end()) {
    // A new tensor object: autograd modifies its metadata.
    if (found->second.is_of(part)) return found->second.whole.detach();
    kept_.erase(found);
  }
  const at::Tensor whole = gather_now_or_ahead(weight, part, dtype);
  kept_.emplace(key, Kept{whole.detach(), WeakStorage(part.storage().getWeakStorageImpl()), part.storage_offset(),
                          part.unsafeGetTensorImpl()->version_counter(), static_cast<uint32_t>(part._version())});
  return whole;
}

at::Tensor GatherAhead::gather_now_or_ahead(const WeightSharding& weight, const at::Tensor& part,
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
  if (!ahead_.empty() && ahead_.front().visit == place) {
    Ahead a = std::move(ahead_.front());
    ahead_.pop_front();
    ahead_bytes_ -= a.bytes;
    const auto sent = visit.part.lock();
    result = WeightSharding::finish(std::move(a.gathering));
    if (sent.get() != part.unsafeGetTensorImpl() || a.version != part._version()) result.reset();
  }
  visit.part = WeakTensor(part.getIntrusivePtr());
  look_ahead(next_);
  return result.defined() ? result : now();
}

void GatherAhead::look_ahead(std::size_t next) {
  if (!ahead_.empty()) next = ahead_.back().visit + 1;
  for (; next < order_.size(); ++next) {
    const Visit& visit = order_[next];
    const int64_t bytes = visit.weight->gathered_numel() * static_cast<int64_t>(c10::elementSize(visit.dtype));
    if (!ahead_.empty() && ahead_bytes_ + bytes > budget_) return;
    const auto impl = visit.part.lock();
    if (!impl) return;
    const at::Tensor part(impl);
    ahead_.push_back(
        {next, static_cast<uint32_t>(part._version()), bytes,
         visit.weight->start(part.detach().to(visit.dtype), visit.weight->gathered_, visit.weight->union_)});
    ahead_bytes_ += bytes;
  }
}

}  // namespace easydel
