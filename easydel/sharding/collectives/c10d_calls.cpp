#include "easydel/sharding/collectives/c10d_calls.h"

#include "easydel/core/error.h"

namespace easydel {
namespace {

std::vector<int64_t> counts_of(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> counts;
  counts.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) counts.push_back(tensor.numel());
  return counts;
}

}  // namespace

ReduceOp reduce_op(const c10d::ReduceOp& op) {
  switch (op) {
    case c10d::ReduceOp::SUM: return ReduceOp::Sum;
    case c10d::ReduceOp::MAX: return ReduceOp::Max;
    case c10d::ReduceOp::MIN: return ReduceOp::Min;
    default:
      fail<NotSupportedError>("[collectives] a reduction must be sum, max or min; got c10d's number ", int(op), ".");
  }
}

CollectiveCall all_reduce_call(const at::Tensor& tensor, const c10d::AllreduceOptions& options) {
  return {.kind = CollectiveKind::AllReduce,
          .dtype = tensor.scalar_type(),
          .detail = static_cast<int64_t>(reduce_op(options.reduceOp)),
          .counts = tensor.sizes().vec()};
}

CollectiveCall all_gather_call(const std::vector<at::Tensor>& outputs) {
  return {.kind = CollectiveKind::AllGather, .dtype = outputs[0].scalar_type(), .counts = counts_of(outputs)};
}

CollectiveCall reduce_scatter_call(const std::vector<at::Tensor>& inputs, const c10d::ReduceScatterOptions& options) {
  return {.kind = CollectiveKind::ReduceScatter,
          .dtype = inputs[0].scalar_type(),
          .detail = static_cast<int64_t>(reduce_op(options.reduceOp)),
          .counts = counts_of(inputs)};
}

CollectiveCall all_to_all_call(const at::Tensor& input, const std::vector<int64_t>& output_splits,
                               const std::vector<int64_t>& input_splits) {
  const CollectiveKind kind = CollectiveName::current(CollectiveKind::AllToAll);
  const int64_t row = c10::multiply_integers(input.sizes().slice(1));
  CollectiveCall call{
      .kind = kind, .dtype = input.scalar_type(), .counts = {row}, .sends = input_splits, .receives = output_splits};
  if (kind == CollectiveKind::Shift) call.counts = input.sizes().vec();
  for (auto* splits : {&call.sends, &call.receives}) {
    for (int64_t& split : *splits) split *= row;
  }
  return call;
}

CollectiveCall broadcast_call(const at::Tensor& tensor, const c10d::BroadcastOptions& options) {
  return {.kind = CollectiveKind::Broadcast,
          .dtype = tensor.scalar_type(),
          .detail = options.rootRank,
          .counts = tensor.sizes().vec()};
}

}  // namespace easydel
