// A group of ranks and its collectives on plain tensors, without gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace c10d {
class Backend;
}

namespace easydel {

enum class ReduceOp : uint8_t { Sum, Max, Min };

// A pending collective. Its tensors must not be changed until wait() has returned.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;  // the results are ready for the calling thread and its current stream
};

struct CommunicationStats;

// Every member calls the same collectives in the same order. Tensors are contiguous, of any dtype of a checkpoint;
// bfloat16 and float16 are summed in float32 and rounded once. The order of summation is fixed, so every member has
// the same bits. In a group of one nothing is sent. DistributedError names the collective, the group and the rank at
// fault when a member dies, hangs past the timeout or, in debug mode, makes a different call.
class Group {
 public:
  // `name` is used in errors and reports: the mesh axes, "fsdp" or "dp+sp". A null backend is a group of one.
  Group(std::string name, c10::intrusive_ptr<c10d::Backend> backend, std::shared_ptr<CommunicationStats> stats);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int64_t size() const;
  int64_t rank() const;  // of the calling rank in this group
  const std::string& name() const;

  void all_reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::Sum) const;  // in place
  // Members may pass different numbers of elements, known to all: counts[r] is that of member r. Returns flat tensors,
  // one for each member, consecutive in new memory. A group of one returns its input, here and below.
  std::vector<at::Tensor> all_gather(const at::Tensor& local, std::span<const int64_t> counts) const;
  // parts[r] is for member r and may differ in size from parts[q], but not from other members' parts[r]. Returns the
  // sum of all members' parts for this one, flat.
  at::Tensor reduce_scatter(const std::vector<at::Tensor>& parts) const;
  // Rows [in_splits[r]] of `rows` [R, ...] go to member r, in order; out_splits[r] rows come from it.
  at::Tensor all_to_all(const at::Tensor& rows, std::span<const int64_t> in_splits,
                        std::span<const int64_t> out_splits) const;
  void broadcast(const at::Tensor& tensor, int64_t root) const;  // in place
  // Sends to the next member and receives the same shape from the one before it.
  at::Tensor shift(const at::Tensor& tensor) const;
  void barrier() const;

  // As above, asynchronous; `out` is filled after wait(). Executed in the order of the calls.
  std::unique_ptr<Pending> start_all_gather(const at::Tensor& local, std::span<const int64_t> counts,
                                            std::vector<at::Tensor>& out) const;
  std::unique_ptr<Pending> start_shift(const at::Tensor& tensor, at::Tensor& out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace easydel
