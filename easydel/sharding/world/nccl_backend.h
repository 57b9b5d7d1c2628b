// What torch's NCCL lacks for a Group: small floats summed in float32, dtypes that NCCL does not support, tensors in
// host memory, and the comparison of members' calls.
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "easydel/sharding/collectives/collective_call.h"
#include "easydel/sharding/world/store_monitor.h"

namespace easydel {

class NcclBackend : public c10d::Backend {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using StorePtr = c10::intrusive_ptr<c10d::Store>;

  // `inner` does collectives on `device`. In debug mode members compare through `debug_store`, else it is null.
  NcclBackend(c10::intrusive_ptr<c10d::Backend> inner, at::Device device, std::shared_ptr<WatchedGroup> group,
              std::shared_ptr<StoreMonitor> monitor, StorePtr debug_store);
  const std::string getBackendName() const override { return "nccl"; }
  void shutdown() override { inner_->shutdown(); }

  WorkPtr allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allgather(std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter(std::vector<at::Tensor>& outputs, std::vector<std::vector<at::Tensor>>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  WorkPtr broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

 private:
  uint64_t enter(const CollectiveCall& call);
  void compare(const CollectiveCall& call, uint64_t number);
  // Starts one of inner's collectives; converts its errors.
  template <class Start>
  WorkPtr start(const CollectiveCall& call, uint64_t number, const Start& start);

  at::Tensor on_device(const at::Tensor& tensor) const;
  // For each member, the sum of all members' flat parts[member].
  at::Tensor sum_parts(const CollectiveCall& call, uint64_t number, const std::vector<at::Tensor>& parts);

  const c10::intrusive_ptr<c10d::Backend> inner_;
  const at::Device device_;
  const std::shared_ptr<WatchedGroup> group_;
  const std::shared_ptr<StoreMonitor> monitor_;
  const StorePtr debug_store_;
};

}  // namespace easydel
