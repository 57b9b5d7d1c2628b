#include "easydel/sharding/world/nccl_backend.h"

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/c10d_calls.h"

namespace easydel {
namespace {

// Waits for inner's work, then copies results to their destination.
class NcclWork : public c10d::Work {
 public:
  NcclWork(c10::intrusive_ptr<c10d::Work> inner, std::vector<at::Tensor> outputs, std::vector<at::Tensor> sources)
      : inner_(std::move(inner)), outputs_(std::move(outputs)), sources_(std::move(sources)) {}

  bool wait(std::chrono::milliseconds) override {
    if (inner_) inner_->wait();
    inner_.reset();
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (!outputs_[i].is_same(sources_[i])) outputs_[i].copy_(sources_[i]);
    }
    outputs_.clear();
    sources_.clear();
    return true;
  }

 private:
  c10::intrusive_ptr<c10d::Work> inner_;
  std::vector<at::Tensor> outputs_, sources_;
};

NcclBackend::WorkPtr done(const at::Tensor& output, const at::Tensor& source) {
  auto work = c10::make_intrusive<NcclWork>(nullptr, std::vector<at::Tensor>{output}, std::vector<at::Tensor>{source});
  work->wait(kNoTimeout);
  return work;
}

bool is_small_float(at::ScalarType dtype) { return c10::isFloatingType(dtype) && c10::elementSize(dtype) < 4; }

// NCCL moves bytes of any dtype.
at::Tensor as_bytes(const at::Tensor& tensor) { return tensor.view(-1).view(at::kByte); }

std::vector<uint8_t> to_bytes(const std::vector<int64_t>& numbers) {
  const auto* data = reinterpret_cast<const uint8_t*>(numbers.data());
  return {data, data + numbers.size() * sizeof(int64_t)};
}

std::vector<int64_t> to_numbers(const std::vector<uint8_t>& bytes) {
  std::vector<int64_t> numbers(bytes.size() / sizeof(int64_t));
  std::copy_n(bytes.data(), numbers.size() * sizeof(int64_t), reinterpret_cast<uint8_t*>(numbers.data()));
  return numbers;
}

}  // namespace

NcclBackend::NcclBackend(c10::intrusive_ptr<c10d::Backend> inner, at::Device device,
                         std::shared_ptr<WatchedGroup> group, std::shared_ptr<StoreMonitor> monitor,
                         StorePtr debug_store)
    : Backend(inner->getRank(), inner->getSize()),
      inner_(std::move(inner)),
      device_(device),
      group_(std::move(group)),
      monitor_(std::move(monitor)),
      debug_store_(std::move(debug_store)) {}

uint64_t NcclBackend::enter(const CollectiveCall& call) {
  const uint64_t number = group_->entered++;
  if (debug_store_) compare(call, number);
  return number;
}

void NcclBackend::compare(const CollectiveCall& call, uint64_t number) {
  const auto key = [&](uint64_t of, int64_t member) { return concat(group_->key(), "/", of, "/", member); };
  debug_store_->set(key(number, getRank()), to_bytes(call.encode()));
  std::vector<CollectiveCall> calls(getSize());
  std::vector<const CollectiveCall*> pointers(getSize());
  for (int64_t member = 0; member < getSize(); ++member) {
    try {
      calls[member] = CollectiveCall::decode(to_numbers(debug_store_->get(key(number, member))));
      pointers[member] = &calls[member];
    } catch (const c10::Error&) {
      fail<DistributedError>(group_->where(name_of(call.kind)), "no result after ",
                             std::chrono::duration<double>(debug_store_->getTimeout()).count(), " s; rank ",
                             group_->ranks[member], " has not arrived. EASYDEL_TIMEOUT sets the limit in seconds.");
    }
  }
  if (number > 0) debug_store_->deleteKey(key(number - 1, getRank()));  // all have passed it
  if (!agree(pointers)) throw DistributedError(disagreement(group_->name, number, pointers, group_->ranks));
}

template <class Start>
NcclBackend::WorkPtr NcclBackend::start(const CollectiveCall& call, uint64_t number, const Start& start) {
  try {
    WorkPtr work = start();
    monitor_->watch(group_, number, name_of(call.kind), work);
    return work;
  } catch (const c10::Error& error) {
    throw DistributedError(group_->where(name_of(call.kind)) + error.what_without_backtrace());
  }
}

at::Tensor NcclBackend::on_device(const at::Tensor& tensor) const {
  return tensor.device().type() == device_.type() ? tensor : tensor.to(device_);
}

at::Tensor NcclBackend::sum_parts(const CollectiveCall& call, uint64_t number, const std::vector<at::Tensor>& parts) {
  const at::Tensor& own = parts[getRank()];
  std::vector<int64_t> sent, received(getSize(), own.numel() * own.element_size());
  for (const at::Tensor& part : parts) sent.push_back(part.numel() * part.element_size());
  at::Tensor in = as_bytes(at::cat(parts));
  at::Tensor out = at::empty({getSize() * received[0]}, in.options());
  start(call, number, [&] { return inner_->alltoall_base(out, in, received, sent, {}); })->wait();

  const at::Tensor all = out.view(own.scalar_type()).view({getSize(), own.numel()});
  at::Tensor sum = all[0].to(at::kFloat);
  for (int64_t r = 1; r < getSize(); ++r) {
    switch (static_cast<ReduceOp>(call.detail)) {
      case ReduceOp::Sum: sum += all[r].to(at::kFloat); break;
      case ReduceOp::Max: sum = at::maximum(sum, all[r].to(at::kFloat)); break;
      case ReduceOp::Min: sum = at::minimum(sum, all[r].to(at::kFloat)); break;
    }
  }
  return sum.to(own.scalar_type());
}

NcclBackend::WorkPtr NcclBackend::allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) {
  const CollectiveCall call = all_reduce_call(tensors[0], options);
  const uint64_t number = enter(call);
  at::Tensor tensor = on_device(tensors[0]);
  if (!is_small_float(tensor.scalar_type())) {
    if (tensor.scalar_type() == at::kShort) tensor = tensor.to(at::kInt);  // NCCL has no int16
    std::vector<at::Tensor> given{tensor};
    start(call, number, [&] { return inner_->allreduce(given, options); })->wait();
    return done(tensors[0], tensor);
  }
  // Member r sums slice r; the last slice may be shorter, and all are padded for the gather.
  const int64_t n = getSize(), count = tensor.numel(), slice = (count + n - 1) / n;
  if (count == 0) return done(tensors[0], tensor);
  const at::Tensor padded = at::zeros({n * slice}, tensor.options());
  padded.narrow(0, 0, count).copy_(tensor.view(-1));
  at::Tensor own = as_bytes(sum_parts(call, number, padded.split(slice)));
  at::Tensor all = as_bytes(padded);
  start(call, number, [&] { return inner_->_allgather_base(all, own, {}); })->wait();
  return done(tensors[0], padded.narrow(0, 0, count).view(tensor.sizes()));
}

NcclBackend::WorkPtr NcclBackend::reduce_scatter(std::vector<at::Tensor>& outputs,
                                                 std::vector<std::vector<at::Tensor>>& inputs,
                                                 const c10d::ReduceScatterOptions& options) {
  const CollectiveCall call = reduce_scatter_call(inputs[0], options);
  const uint64_t number = enter(call);
  std::vector<std::vector<at::Tensor>> parts(1);
  for (const at::Tensor& part : inputs[0]) parts[0].push_back(on_device(part));
  if (is_small_float(outputs[0].scalar_type())) return done(outputs[0], sum_parts(call, number, parts[0]));
  const bool widened = outputs[0].scalar_type() == at::kShort;
  for (at::Tensor& part : parts[0]) {
    if (widened) part = part.to(at::kInt);
  }
  std::vector<at::Tensor> sums{on_device(outputs[0])};
  if (widened) sums[0] = sums[0].to(at::kInt);
  start(call, number, [&] { return inner_->reduce_scatter(sums, parts, options); })->wait();
  return done(outputs[0], sums[0]);
}

NcclBackend::WorkPtr NcclBackend::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                            std::vector<at::Tensor>& inputs, const c10d::AllgatherOptions& options) {
  const CollectiveCall call = all_gather_call(outputs[0]);
  const uint64_t number = enter(call);
  std::vector<at::Tensor> in{as_bytes(on_device(inputs[0]))};
  std::vector<std::vector<at::Tensor>> out(1);
  std::vector<at::Tensor> sources;
  bool even = true;
  for (const at::Tensor& output : outputs[0]) {
    sources.push_back(output.device().type() == device_.type()
                          ? output
                          : at::empty(output.sizes(), output.options().device(device_)));
    out[0].push_back(as_bytes(sources.back()));
    even = even && output.numel() == outputs[0][0].numel();
  }
  // Group's outputs are consecutive: equal-sized ones are one buffer, which NCCL fills without a copy.
  const at::Tensor& first = sources[0];
  const bool joined = even && first.storage().is_alias_of(sources.back().storage()) &&
                      sources.back().storage_offset() - first.storage_offset() == first.numel() * (getSize() - 1);
  WorkPtr work;
  if (joined) {
    at::Tensor whole = as_bytes(first.as_strided({first.numel() * getSize()}, {1}, first.storage_offset()));
    work = start(call, number, [&] { return inner_->_allgather_base(whole, in[0], options); });
  } else {
    work = start(call, number, [&] { return inner_->allgather(out, in, options); });
  }
  return c10::make_intrusive<NcclWork>(std::move(work), outputs[0], std::move(sources));
}

NcclBackend::WorkPtr NcclBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                std::vector<int64_t>& output_splits, std::vector<int64_t>& input_splits,
                                                const c10d::AllToAllOptions& options) {
  const CollectiveCall call = all_to_all_call(input, output_splits, input_splits);
  const uint64_t number = enter(call);
  const at::Tensor source =
      output.device().type() == device_.type() ? output : at::empty(output.sizes(), output.options().device(device_));
  at::Tensor in = as_bytes(on_device(input)), out = as_bytes(source);
  std::vector<int64_t> sends = call.sends, receives = call.receives;
  for (int64_t& bytes : sends) bytes *= input.element_size();
  for (int64_t& bytes : receives) bytes *= input.element_size();
  WorkPtr work = start(call, number, [&] { return inner_->alltoall_base(out, in, receives, sends, options); });
  return c10::make_intrusive<NcclWork>(std::move(work), std::vector<at::Tensor>{output},
                                       std::vector<at::Tensor>{source});
}

NcclBackend::WorkPtr NcclBackend::broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) {
  const CollectiveCall call = broadcast_call(tensors[0], options);
  const uint64_t number = enter(call);
  const at::Tensor source = on_device(tensors[0]);
  std::vector<at::Tensor> given{as_bytes(source)};
  start(call, number, [&] { return inner_->broadcast(given, options); })->wait();
  return done(tensors[0], source);
}

NcclBackend::WorkPtr NcclBackend::barrier(const c10d::BarrierOptions&) {
  const CollectiveCall call;
  const uint64_t number = enter(call);
  // A tiny all_reduce: NCCL's own barrier guesses a device.
  std::vector<at::Tensor> token{at::zeros({1}, at::TensorOptions(at::kFloat).device(device_))};
  start(call, number, [&] { return inner_->allreduce(token, c10d::AllreduceOptions()); })->wait();
  token[0].item<float>();  // the host waits, too
  return done(token[0], token[0]);
}

}  // namespace easydel
