#include "easydel/infra/files/whole_tensors.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/group.h"

namespace easydel {

WholeTensors::WholeTensors(std::function<at::Tensor(int64_t index)> gather, const Group* group, at::Device device)
    : gather_(std::move(gather)), group_(group), device_(device) {}

bool WholeTensors::writes() const { return !group_ || group_->rank() == 0; }

void WholeTensors::tell(int64_t what) const {
  if (group_) group_->broadcast(at::full({1}, what, at::TensorOptions(at::kLong).device(device_)), 0);
}

const at::Tensor& WholeTensors::get(int64_t index) {
  if (index != last_) {
    whole_.reset();
    tell(index);
    whole_ = gather_(index);
    last_ = index;
  }
  return whole_;
}

void WholeTensors::serve(const char* where) const {
  for (;;) {
    const at::Tensor index = at::empty({1}, at::TensorOptions(at::kLong).device(device_));
    group_->broadcast(index, 0);
    const auto wanted = index.item<int64_t>();
    if (wanted == kDone) return;
    require<DistributedError>(wanted != kFailed, "[", where, "] rank 0 could not save; its error says why.");
    gather_(wanted);
  }
}

void WholeTensors::run(const std::function<void()>& write, const char* where) {
  if (!writes()) return serve(where);
  try {
    write();
  } catch (const DistributedError&) {
    throw;  // the others know
  } catch (...) {
    abandon();
    throw;
  }
  tell(kDone);
  whole_.reset();
  last_ = -1;
}

}  // namespace easydel
