#include "easydel/sharding/thread_backend.h"

#include "easydel/core/error.h"

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

// What easydel::ReduceOp counts.
int64_t operation(const c10d::ReduceOp& op) {
  switch (op) {
    case c10d::ReduceOp::SUM: return static_cast<int64_t>(ReduceOp::Sum);
    case c10d::ReduceOp::MAX: return static_cast<int64_t>(ReduceOp::Max);
    case c10d::ReduceOp::MIN: return static_cast<int64_t>(ReduceOp::Min);
    default: fail<NotSupportedError>("[ThreadBackend] reductions are sum, max and min; got operation ", int(op), ".");
  }
}

std::vector<int64_t> counts_of(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> counts;
  for (const at::Tensor& tensor : tensors) counts.push_back(tensor.numel());
  return counts;
}

}  // namespace

ThreadBackend::ThreadBackend(std::shared_ptr<ThreadGroup> group, int64_t member)
    : Backend(static_cast<int>(member), static_cast<int>(group->size())), group_(std::move(group)) {}

ThreadBackend::WorkPtr ThreadBackend::start(ThreadPosting posting) {
  for (const auto* tensors : {&posting.inputs, &posting.outputs}) {
    for (const at::Tensor& tensor : *tensors) {
      require<NotSupportedError>(tensor.is_cpu(), "[", name_of(posting.call.kind),
                                 "] thread ranks share tensors on the CPU; got one on ", tensor.device(),
                                 ". GPUs want a process each: start the run with mpirun or torchrun.");
    }
  }
  group_->post(getRank(), next_, std::move(posting));
  return c10::make_intrusive<ThreadWork>(group_, getRank(), next_++);
}

ThreadBackend::WorkPtr ThreadBackend::allreduce(std::vector<at::Tensor>& tensors,
                                                const c10d::AllreduceOptions& options) {
  const at::Tensor& t = tensors[0];
  return start(
      {{CollectiveKind::AllReduce, t.scalar_type(), operation(options.reduceOp), t.sizes().vec(), {}, {}}, {t}, {t}});
}

ThreadBackend::WorkPtr ThreadBackend::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                                std::vector<at::Tensor>& inputs, const c10d::AllgatherOptions&) {
  return start({{CollectiveKind::AllGather, inputs[0].scalar_type(), 0, counts_of(outputs[0]), {}, {}},
                {inputs[0]},
                outputs[0]});
}

ThreadBackend::WorkPtr ThreadBackend::reduce_scatter(std::vector<at::Tensor>& outputs,
                                                     std::vector<std::vector<at::Tensor>>& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  return start({{CollectiveKind::ReduceScatter,
                 outputs[0].scalar_type(),
                 operation(options.reduceOp),
                 counts_of(inputs[0]),
                 {},
                 {}},
                inputs[0],
                {outputs[0]}});
}

ThreadBackend::WorkPtr ThreadBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                    std::vector<int64_t>& output_splits,
                                                    std::vector<int64_t>& input_splits, const c10d::AllToAllOptions&) {
  const CollectiveKind kind = CollectiveName::current(CollectiveKind::AllToAll);
  const int64_t row = c10::multiply_integers(input.sizes().slice(1));
  CollectiveCall call{kind, input.scalar_type(), 0, {row}, input_splits, output_splits};
  if (kind == CollectiveKind::Shift) call.counts = input.sizes().vec();
  for (auto* splits : {&call.sends, &call.receives}) {
    for (int64_t& split : *splits) split *= row;
  }
  return start({std::move(call), {input}, {output}});
}

ThreadBackend::WorkPtr ThreadBackend::broadcast(std::vector<at::Tensor>& tensors,
                                                const c10d::BroadcastOptions& options) {
  const at::Tensor& t = tensors[0];
  return start({{CollectiveKind::Broadcast, t.scalar_type(), options.rootRank, t.sizes().vec(), {}, {}}, {t}, {t}});
}

ThreadBackend::WorkPtr ThreadBackend::barrier(const c10d::BarrierOptions&) { return start({}); }

}  // namespace easydel
