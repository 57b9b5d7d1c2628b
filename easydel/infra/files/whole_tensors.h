// Tensors that are split over a mesh, whole and one at a time for the rank that writes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace easydel {

class Group;

// Rank 0 asks for one tensor after the other, and all ranks gather it: nobody holds more than one whole at a time.
class WholeTensors {
 public:
  // `gather` gives the whole of that index, on every rank; without a group this rank is alone.
  WholeTensors(std::function<at::Tensor(int64_t index)> gather, const Group* group, at::Device device);

  bool writes() const;
  const at::Tensor& get(int64_t index);  // until the next call
  // Runs `write` on rank 0 while the others help; a DistributedError on these when it fails. `where` names the caller.
  void run(const std::function<void()>& write, const char* where);
  void abandon() { tell(kFailed); }  // instead of run, on rank 0

 private:
  static constexpr int64_t kDone = -1, kFailed = -2;
  void tell(int64_t what) const;
  void serve(const char* where) const;

  std::function<at::Tensor(int64_t)> gather_;
  const Group* group_;
  at::Device device_;
  at::Tensor whole_;
  int64_t last_ = -1;
};

}  // namespace easydel
