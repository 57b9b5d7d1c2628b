#include "easydel/sharding/collectives/group.h"

#include <numeric>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "easydel/core/dtype.h"
#include "easydel/core/error.h"
#include "easydel/core/files/large_pages.h"
#include "easydel/sharding/collectives/collective_call.h"
#include "easydel/sharding/collectives/reduce.h"
#include "easydel/sharding/world/world.h"

namespace easydel {
namespace {

// Without autograd's bookkeeping, which costs more than a small collective.
using PlainTensors = at::AutoDispatchBelowADInplaceOrView;

class PendingWork : public Pending {
 public:
  PendingWork(c10::intrusive_ptr<c10d::Work> work, std::vector<at::Tensor> given)
      : work_(std::move(work)), given_(std::move(given)) {}
  void wait() override {
    const PlainTensors plain;
    if (work_) work_->wait();
    work_.reset();
    given_.clear();
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::vector<at::Tensor> given_;
};

void require_contiguous(CollectiveKind kind, const at::Tensor& tensor) {
  require<ShapeError>(tensor.is_contiguous(), "[", name_of(kind), "] a tensor must be contiguous; got shape ",
                      tensor.sizes(), " with strides ", tensor.strides(), ".");
}

void require_numbers(CollectiveKind kind, const at::Tensor& tensor) {
  require<NotSupportedError>(can_reduce(tensor.scalar_type()), "[", name_of(kind),
                             "] a reduction needs a dtype with arithmetic; got ", dtype_name(tensor.scalar_type()),
                             ".");
}

c10d::ReduceOp operation(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum: return c10d::ReduceOp::SUM;
    case ReduceOp::Max: return c10d::ReduceOp::MAX;
    case ReduceOp::Min: return c10d::ReduceOp::MIN;
  }
  return c10d::ReduceOp::SUM;
}

at::Tensor flat(const at::Tensor& tensor) { return tensor.dim() == 1 ? tensor : tensor.view(-1); }

// Elements [at, at + count) of a flat tensor; narrow() costs several times as much.
at::Tensor piece(const at::Tensor& whole, int64_t at, int64_t count) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(whole.storage()),
                                                   whole.key_set(), whole.dtype());
  impl->set_storage_offset(whole.storage_offset() + at);
  impl->set_sizes_contiguous({count});
  return at::Tensor(std::move(impl));
}

// Allocating memory costs more than sending, unless it is in huge pages.
at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return empty_in_large_pages(sizes, options, std::size_t{4} << 20);
}

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

}  // namespace

struct Group::Impl {
  std::string name;
  c10::intrusive_ptr<c10d::Backend> backend;
  std::shared_ptr<CommunicationStats> stats;

  void count(CollectiveKind kind, int64_t bytes) const {
    if (!stats) return;
    CommunicationStats::Entry& entry = stats->entries[{name, name_of(kind)}];
    ++entry.calls;
    entry.bytes += bytes;
  }
};

Group::Group(std::string name, c10::intrusive_ptr<c10d::Backend> backend, std::shared_ptr<CommunicationStats> stats)
    : impl_(std::make_unique<Impl>(Impl{std::move(name), std::move(backend), std::move(stats)})) {}
Group::~Group() = default;

int64_t Group::size() const { return impl_->backend ? impl_->backend->getSize() : 1; }
int64_t Group::rank() const { return impl_->backend ? impl_->backend->getRank() : 0; }
const std::string& Group::name() const { return impl_->name; }

void Group::all_reduce(const at::Tensor& tensor, ReduceOp op) const {
  require_contiguous(CollectiveKind::AllReduce, tensor);
  require_numbers(CollectiveKind::AllReduce, tensor);
  if (!impl_->backend) return;
  const PlainTensors plain;
  std::vector<at::Tensor> tensors{tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = operation(op);
  impl_->backend->allreduce(tensors, options)->wait();
  impl_->count(CollectiveKind::AllReduce, 2 * (size() - 1) * bytes_of(tensor) / size());
}

std::unique_ptr<Pending> Group::start_all_gather(const at::Tensor& local, std::span<const int64_t> counts,
                                                 std::vector<at::Tensor>& out) const {
  require_contiguous(CollectiveKind::AllGather, local);
  require<ShapeError>(static_cast<int64_t>(counts.size()) == size() && counts[rank()] == local.numel(),
                      "[all_gather] counts must have one number for each of ", size(),
                      " members, equal to the elements of this one; got ",
                      at::IntArrayRef(counts.data(), counts.size()), " for member ", rank(), " with ", local.numel(),
                      ".");
  if (!impl_->backend) {
    out = {local.detach().view(-1)};
    return std::make_unique<PendingWork>(nullptr, std::vector<at::Tensor>{});
  }
  const PlainTensors plain;
  const at::Tensor all = empty({std::accumulate(counts.begin(), counts.end(), int64_t{0})}, local.options());
  std::vector<std::vector<at::Tensor>> outputs(1);
  int64_t at = 0;
  for (const int64_t count : counts) {
    outputs[0].push_back(piece(all, at, count));
    at += count;
  }
  std::vector<at::Tensor> inputs{flat(local)};
  auto work = impl_->backend->allgather(outputs, inputs);
  impl_->count(CollectiveKind::AllGather, (size() - 1) * bytes_of(local));
  out = std::move(outputs[0]);
  return std::make_unique<PendingWork>(std::move(work), std::move(inputs));
}

std::vector<at::Tensor> Group::all_gather(const at::Tensor& local, std::span<const int64_t> counts) const {
  std::vector<at::Tensor> out;
  start_all_gather(local, counts, out)->wait();
  return out;
}

at::Tensor Group::reduce_scatter(const std::vector<at::Tensor>& parts) const {
  require<ShapeError>(static_cast<int64_t>(parts.size()) == size(),
                      "[reduce_scatter] there must be a part for each of ", size(), " members; got ", parts.size(),
                      ".");
  if (!impl_->backend) {
    require_contiguous(CollectiveKind::ReduceScatter, parts[0]);
    return parts[0].detach().view(-1);
  }
  const PlainTensors plain;
  std::vector<std::vector<at::Tensor>> inputs(1);
  int64_t bytes = 0;
  for (const at::Tensor& part : parts) {
    require_contiguous(CollectiveKind::ReduceScatter, part);
    require_numbers(CollectiveKind::ReduceScatter, part);
    inputs[0].push_back(flat(part));
    bytes += bytes_of(part);
  }
  const at::Tensor& own = inputs[0][rank()];
  std::vector<at::Tensor> outputs{empty(own.sizes(), own.options())};
  bytes -= bytes_of(own);
  impl_->backend->reduce_scatter(outputs, inputs)->wait();
  impl_->count(CollectiveKind::ReduceScatter, bytes);
  return outputs[0];
}

at::Tensor Group::all_to_all(const at::Tensor& rows, std::span<const int64_t> in_splits,
                             std::span<const int64_t> out_splits) const {
  require_contiguous(CollectiveKind::AllToAll, rows);
  const auto sum = [](std::span<const int64_t> splits) {
    return std::accumulate(splits.begin(), splits.end(), int64_t{0});
  };
  require<ShapeError>(rows.dim() >= 1 && static_cast<int64_t>(in_splits.size()) == size() &&
                          in_splits.size() == out_splits.size() && sum(in_splits) == rows.size(0),
                      "[all_to_all] there must be a split for each of ", size(), " members, and those in must sum to ",
                      "the rows; got ", at::IntArrayRef(in_splits.data(), in_splits.size()), " in and ",
                      at::IntArrayRef(out_splits.data(), out_splits.size()), " out for shape ", rows.sizes(), ".");
  if (!impl_->backend) return rows.detach();
  const PlainTensors plain;
  at::Tensor in = rows;
  std::vector<int64_t> shape = rows.sizes().vec();
  shape[0] = sum(out_splits);
  at::Tensor out = empty(shape, rows.options());
  std::vector<int64_t> from(out_splits.begin(), out_splits.end()), to(in_splits.begin(), in_splits.end());
  impl_->backend->alltoall_base(out, in, from, to)->wait();
  const int64_t kept = rows.size(0) == 0 ? 0 : bytes_of(rows) / rows.size(0) * in_splits[rank()];
  impl_->count(CollectiveKind::AllToAll, bytes_of(rows) - kept);
  return out;
}

std::unique_ptr<Pending> Group::start_shift(const at::Tensor& tensor, at::Tensor& out) const {
  require_contiguous(CollectiveKind::Shift, tensor);
  if (!impl_->backend) {
    out = tensor.detach();
    return std::make_unique<PendingWork>(nullptr, std::vector<at::Tensor>{});
  }
  const CollectiveName name(CollectiveKind::Shift);
  const PlainTensors plain;
  at::Tensor in = flat(tensor), result = empty(tensor.sizes(), tensor.options());
  at::Tensor flat_result = flat(result);
  std::vector<int64_t> from(size(), 0), to(size(), 0);
  from[(rank() + size() - 1) % size()] = to[(rank() + 1) % size()] = in.numel();
  auto work = impl_->backend->alltoall_base(flat_result, in, from, to);
  impl_->count(CollectiveKind::Shift, size() == 1 ? 0 : bytes_of(tensor));
  out = std::move(result);
  return std::make_unique<PendingWork>(std::move(work), std::vector<at::Tensor>{in});
}

at::Tensor Group::shift(const at::Tensor& tensor) const {
  at::Tensor out;
  start_shift(tensor, out)->wait();
  return out;
}

void Group::broadcast(const at::Tensor& tensor, int64_t root) const {
  require_contiguous(CollectiveKind::Broadcast, tensor);
  require<ShapeError>(root >= 0 && root < size(), "[broadcast] the root must be a member below ", size(), "; got ",
                      root, ".");
  if (!impl_->backend) return;
  const PlainTensors plain;
  std::vector<at::Tensor> tensors{tensor};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  impl_->backend->broadcast(tensors, options)->wait();
  impl_->count(CollectiveKind::Broadcast, rank() == root ? (size() - 1) * bytes_of(tensor) : 0);
}

void Group::barrier() const {
  if (!impl_->backend) return;
  const PlainTensors plain;
  impl_->backend->barrier()->wait();
  impl_->count(CollectiveKind::Barrier, 0);
}

}  // namespace easydel
