#include "easydel/data/order/walk.h"

#include "easydel/core/error.h"

namespace easydel::data {

Walk::Walk(std::shared_ptr<const Dataset> dataset, Transform transform, int64_t batch_size, std::vector<int64_t> own)
    : dataset_(std::move(dataset)), transform_(std::move(transform)), batch_size_(batch_size), own_(std::move(own)) {
  require<ConfigError>(batch_size_ > 0, "[Walk] batch_size must be above 0; got ", batch_size_, ".");
  steps_ = (dataset_->size() + batch_size_ - 1) / batch_size_;
  if (own_.empty()) {
    for (int64_t i = 0; i < batch_size_; ++i) own_.push_back(i);
  }
  for (const int64_t place : own_) {
    require<ConfigError>(place >= 0 && place < batch_size_, "[Walk] own must contain indices from 0 to ",
                         batch_size_ - 1, "; got ", place, ".");
  }
}

std::vector<Example> Walk::next() {
  std::vector<Example> out;
  if (is_done()) return out;
  for (const int64_t place : own_) {
    const int64_t index = step_ * batch_size_ + place;
    if (index >= dataset_->size()) continue;
    if (auto example = transform_(dataset_->row(index))) out.push_back(std::move(*example));
  }
  ++step_;
  return out;
}

}  // namespace easydel::data
