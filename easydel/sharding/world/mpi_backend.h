// c10d's collectives between MPI processes. Tensors on a GPU are staged through pinned host memory.
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "easydel/sharding/collectives/collective_call.h"
#include "easydel/sharding/world/mpi_exchange.h"

namespace easydel {

// Sums are bit-identical to those of ThreadBackend: each slice goes to one member, which adds in the order of the
// members and sends the result to all.
class MpiBackend : public c10d::Backend {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  MpiBackend(MpiRuntime& runtime, std::shared_ptr<MpiChannel> channel);
  const std::string getBackendName() const override { return "mpi"; }

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
  uint64_t enter(const CollectiveCall& call);  // its number; in debug mode members compare
  void compare(const CollectiveCall& call, uint64_t number);
  std::unique_ptr<MpiExchange> exchange(const CollectiveCall& call, uint64_t number);

  void reduce_small(const CollectiveCall& call, uint64_t number, const at::Tensor& tensor);
  void reduce_slices(const CollectiveCall& call, uint64_t number, const at::Tensor& piece,
                     const std::vector<at::Tensor>& others);
  std::vector<at::Tensor> scratch(int64_t bytes) const;  // for each other member
  // This member's data and that received from the others, in the order of the members.
  void add_up(const CollectiveCall& call, const char* own, const std::vector<at::Tensor>& others, char* out,
              int64_t elements);

  MpiRuntime& runtime_;
  const std::shared_ptr<MpiChannel> channel_;
};

}  // namespace easydel
