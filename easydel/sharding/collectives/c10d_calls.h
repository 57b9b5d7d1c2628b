// Converts c10d's arguments to a CollectiveCall, for the backends.
#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "easydel/sharding/collectives/collective_call.h"
#include "easydel/sharding/collectives/group.h"

namespace easydel {

ReduceOp reduce_op(const c10d::ReduceOp& op);  // NotSupportedError unless sum, max or min

CollectiveCall all_reduce_call(const at::Tensor& tensor, const c10d::AllreduceOptions& options);
CollectiveCall all_gather_call(const std::vector<at::Tensor>& outputs);
CollectiveCall reduce_scatter_call(const std::vector<at::Tensor>& inputs, const c10d::ReduceScatterOptions& options);
// Splits are in rows; the call has them in elements. CollectiveName marks shifts.
CollectiveCall all_to_all_call(const at::Tensor& input, const std::vector<int64_t>& output_splits,
                               const std::vector<int64_t>& input_splits);
CollectiveCall broadcast_call(const at::Tensor& tensor, const c10d::BroadcastOptions& options);

}  // namespace easydel
