// Prefetches sharded weights: gathers the next ones in the order of the last step while the current one computes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "easydel/sharding/weight_sharding.h"

namespace easydel {

// One for each rank of a model. All ranks use weights in the same order, so they prefetch the same ones. A wrong
// prediction is dropped; a weight that has changed since is gathered again.
class WeightPrefetcher {
 public:
  // Limits the bytes that are prefetched and not yet used; 0: no prefetching.
  void set_budget(int64_t bytes) { budget_ = bytes; }
  // Whether gathered weights are kept until they change: backward then gathers nothing.
  void set_keep(bool keep);
  void begin_step();  // at the start of a forward pass: restarts the order
  void forget();      // call before weights that it has seen are destroyed
  at::Tensor gather(const WeightSharding& weight, const at::Tensor& part, at::ScalarType dtype);

 private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
  // Parts are identified by memory, not by tensor object.
  struct Kept {
    at::Tensor whole;
    WeakStorage storage;  // of the part
    int64_t offset;
    c10::VariableVersion version;  // of the part: shared, so that it shows when the part has changed
    uint32_t gathered;             // the version at that time
    bool is_of(const at::Tensor& part) const;
  };
  struct Visit {
    const WeightSharding* weight;
    WeakTensor part;
    at::ScalarType dtype;
  };
  struct Prefetched {
    std::size_t visit;  // in order_
    uint32_t version;   // of the part when it was sent
    int64_t bytes;
    WeightSharding::Gathering gathering;
  };
  at::Tensor gather_or_take(const WeightSharding& weight, const at::Tensor& part, at::ScalarType dtype);
  void drop();
  void prefetch(std::size_t next);

  int64_t budget_ = 0;
  std::vector<Visit> order_, seen_;  // of the last step, and of the current one so far
  std::size_t next_ = 0;             // in order_
  std::deque<Prefetched> prefetched_;
  int64_t prefetched_bytes_ = 0;
  bool keep_ = false;
  std::map<std::pair<const WeightSharding*, at::ScalarType>, Kept> kept_;
};

}  // namespace easydel
