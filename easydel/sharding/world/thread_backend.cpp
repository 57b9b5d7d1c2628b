#include "easydel/sharding/world/thread_backend.h"

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/c10d_calls.h"

namespace easydel {
namespace {

class ThreadWork : public c10d::Work {
 public:
  ThreadWork(std::shared_ptr<ThreadGroup> group, int64_t member, uint64_t number)
      : group_(std::move(group)), member_(member), number_(number) {}

  bool wait(std::chrono::milliseconds) override {
    if (!waited_) group_->wait(member_, number_);
    waited_ = true;
    return true;
  }

 private:
  const std::shared_ptr<ThreadGroup> group_;
  const int64_t member_;
  const uint64_t number_;
  bool waited_ = false;
};

}  // namespace

ThreadBackend::ThreadBackend(std::shared_ptr<ThreadGroup> group, int64_t member)
    : Backend(static_cast<int>(member), static_cast<int>(group->size())), group_(std::move(group)) {}

ThreadBackend::WorkPtr ThreadBackend::start(ThreadPosting posting) {
  for (const auto* tensors : {&posting.inputs, &posting.outputs}) {
    for (const at::Tensor& tensor : *tensors) {
      require<NotSupportedError>(tensor.is_cpu(), "[", name_of(posting.call.kind),
                                 "] thread ranks need tensors on the CPU; got one on ", tensor.device(),
                                 ". Each GPU needs its own process: start the run with mpirun or torchrun.");
    }
  }
  group_->post(getRank(), next_, std::move(posting));
  return c10::make_intrusive<ThreadWork>(group_, getRank(), next_++);
}

ThreadBackend::WorkPtr ThreadBackend::allreduce(std::vector<at::Tensor>& tensors,
                                                const c10d::AllreduceOptions& options) {
  return start({all_reduce_call(tensors[0], options), {tensors[0]}, {tensors[0]}});
}

ThreadBackend::WorkPtr ThreadBackend::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                                std::vector<at::Tensor>& inputs, const c10d::AllgatherOptions&) {
  return start({all_gather_call(outputs[0]), {inputs[0]}, outputs[0]});
}

ThreadBackend::WorkPtr ThreadBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::AllgatherOptions& options) {
  std::vector<std::vector<at::Tensor>> outputs{output.view(-1).chunk(getSize())};
  std::vector<at::Tensor> inputs{input};
  return allgather(outputs, inputs, options);
}

ThreadBackend::WorkPtr ThreadBackend::reduce_scatter(std::vector<at::Tensor>& outputs,
                                                     std::vector<std::vector<at::Tensor>>& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  return start({reduce_scatter_call(inputs[0], options), inputs[0], {outputs[0]}});
}

ThreadBackend::WorkPtr ThreadBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                    std::vector<int64_t>& output_splits,
                                                    std::vector<int64_t>& input_splits, const c10d::AllToAllOptions&) {
  return start({all_to_all_call(input, output_splits, input_splits), {input}, {output}});
}

ThreadBackend::WorkPtr ThreadBackend::broadcast(std::vector<at::Tensor>& tensors,
                                                const c10d::BroadcastOptions& options) {
  return start({broadcast_call(tensors[0], options), {tensors[0]}, {tensors[0]}});
}

ThreadBackend::WorkPtr ThreadBackend::barrier(const c10d::BarrierOptions&) { return start({}); }

}  // namespace easydel
