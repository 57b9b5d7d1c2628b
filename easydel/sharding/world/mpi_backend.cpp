#include "easydel/sharding/world/mpi_backend.h"

#include <cstring>

#include "easydel/core/dtype.h"
#include "easydel/core/error.h"
#include "easydel/sharding/collectives/c10d_calls.h"
#include "easydel/sharding/collectives/reduce.h"

namespace easydel {
namespace {

constexpr int64_t kSmallBytes = 64 * 1024;  // of all members: up to here every member sends everything to all
constexpr int64_t kSliceBytes = int64_t{2}
                                << 20;  // of a reduction at a time, for each member, so that they stay in cache
constexpr int64_t kMaxDims = 64;        // of tensors compared in debug mode

at::Tensor host_memory(const at::Tensor& like) {
  return at::empty(like.sizes(), like.options().device(at::kCPU).pinned_memory(like.is_cuda()));
}

// The tensor itself, or its content in host memory.
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  at::Tensor host = host_memory(tensor);
  host.copy_(tensor);
  return host;
}

// The receive buffer.
at::Tensor for_host(const at::Tensor& tensor) { return tensor.is_cpu() ? tensor : host_memory(tensor); }

void to_device(const at::Tensor& tensor, const at::Tensor& host) {
  if (!tensor.is_cpu()) tensor.copy_(host, /*non_blocking=*/true);
}

char* bytes_of(const at::Tensor& tensor) { return static_cast<char*>(tensor.mutable_data_ptr()); }

class MpiWork : public c10d::Work {
 public:
  MpiWork(std::unique_ptr<MpiExchange> exchange, std::vector<at::Tensor> outputs, std::vector<at::Tensor> hosts)
      : exchange_(std::move(exchange)), outputs_(std::move(outputs)), hosts_(std::move(hosts)) {}

  bool wait(std::chrono::milliseconds) override {
    if (exchange_) exchange_->wait();
    exchange_.reset();
    for (std::size_t i = 0; i < hosts_.size(); ++i) to_device(outputs_[i], hosts_[i]);
    outputs_.clear();
    hosts_.clear();
    return true;
  }

 private:
  std::unique_ptr<MpiExchange> exchange_;
  std::vector<at::Tensor> outputs_, hosts_;
};

MpiBackend::WorkPtr done() {
  return c10::make_intrusive<MpiWork>(nullptr, std::vector<at::Tensor>{}, std::vector<at::Tensor>{});
}

}  // namespace

MpiBackend::MpiBackend(MpiRuntime& runtime, std::shared_ptr<MpiChannel> channel)
    : Backend(static_cast<int>(channel->member), static_cast<int>(channel->size())),
      runtime_(runtime),
      channel_(std::move(channel)) {}

uint64_t MpiBackend::enter(const CollectiveCall& call) {
  runtime_.check_failure();
  const uint64_t number = channel_->entered++;
  if (runtime_.options().debug) compare(call, number);
  return number;
}

std::unique_ptr<MpiExchange> MpiBackend::exchange(const CollectiveCall& call, uint64_t number) {
  return std::make_unique<MpiExchange>(runtime_, channel_, name_of(call.kind), number);
}

void MpiBackend::compare(const CollectiveCall& call, uint64_t number) {
  std::vector<int64_t> own = call.encode();
  const std::size_t length = 8 + kMaxDims + 3 * getSize();  // the same for all, whatever they call
  require<NotSupportedError>(own.size() <= length, "[collectives] debug mode supports tensors of up to ", kMaxDims,
                             " dimensions.");
  own.resize(length);
  std::vector<std::vector<int64_t>> all(getSize(), own);
  const auto messages = exchange(call, number);
  for (int64_t r = 0; r < getSize(); ++r) {
    if (r == getRank()) continue;
    messages->send(r, own.data(), static_cast<int64_t>(length * sizeof(int64_t)));
    messages->receive(r, all[r].data(), static_cast<int64_t>(length * sizeof(int64_t)));
  }
  messages->wait();
  std::vector<CollectiveCall> calls(getSize());
  std::vector<const CollectiveCall*> pointers(getSize());
  for (int64_t r = 0; r < getSize(); ++r) {
    calls[r] = CollectiveCall::decode(all[r]);
    pointers[r] = &calls[r];
  }
  if (agree(pointers)) return;
  runtime_.fail(disagreement(channel_->name, number, pointers, channel_->ranks));
}

void MpiBackend::add_up(const CollectiveCall& call, const char* own, const std::vector<at::Tensor>& others, char* out,
                        int64_t elements) {
  std::vector<const void*> ins(getSize());
  for (int64_t r = 0; r < getSize(); ++r) ins[r] = r == getRank() ? own : others[r].const_data_ptr();
  void* const outs[] = {out};
  easydel::reduce(call.dtype, static_cast<ReduceOp>(call.detail), ins, outs, 0, elements);
}

// Every member sends everything to all and sums locally.
void MpiBackend::reduce_small(const CollectiveCall& call, uint64_t number, const at::Tensor& tensor) {
  std::vector<at::Tensor> others(getSize());
  const auto messages = exchange(call, number);
  for (int64_t r = 0; r < getSize(); ++r) {
    if (r == getRank()) continue;
    others[r] = at::empty_like(tensor);
    messages->send(r, bytes_of(tensor), tensor.nbytes());
    messages->receive(r, bytes_of(others[r]), tensor.nbytes());
    messages->keep(others[r]);
  }
  messages->keep(tensor);
  messages->wait();
  add_up(call, bytes_of(tensor), others, bytes_of(tensor), tensor.numel());
}

std::vector<at::Tensor> MpiBackend::scratch(int64_t bytes) const {
  std::vector<at::Tensor> buffers(getSize());
  for (int64_t r = 0; r < getSize(); ++r) {
    if (r != getRank()) buffers[r] = at::empty({bytes}, at::kByte);
  }
  return buffers;
}

// Member r sums slice r and sends the sum to all.
void MpiBackend::reduce_slices(const CollectiveCall& call, uint64_t number, const at::Tensor& piece,
                               const std::vector<at::Tensor>& others) {
  const int64_t n = getSize(), item = piece.element_size();
  const auto start = [&](int64_t r) { return piece.numel() * r / n; };
  const auto slice_bytes = [&](int64_t r) { return (start(r + 1) - start(r)) * item; };
  char* const data = bytes_of(piece);
  char* const own = data + start(getRank()) * item;
  const auto out = exchange(call, number);
  out->keep(piece);
  for (int64_t r = 0; r < n; ++r) {
    if (r == getRank()) continue;
    out->keep(others[r]);
    out->receive(r, bytes_of(others[r]), slice_bytes(getRank()));
    out->send(r, data + start(r) * item, slice_bytes(r));
  }
  out->wait();
  add_up(call, own, others, own, slice_bytes(getRank()) / item);

  const auto back = exchange(call, number);
  back->keep(piece);
  for (int64_t r = 0; r < n; ++r) {
    if (r == getRank()) continue;
    back->receive(r, data + start(r) * item, slice_bytes(r));
    back->send(r, own, slice_bytes(getRank()));
  }
  back->wait();
}

MpiBackend::WorkPtr MpiBackend::allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) {
  const CollectiveCall call = all_reduce_call(tensors[0], options);
  const uint64_t number = enter(call);
  const at::Tensor host = on_host(tensors[0]).view(-1);
  if (static_cast<int64_t>(host.nbytes()) * getSize() <= kSmallBytes) {
    reduce_small(call, number, host);
  } else {
    const int64_t step = kSliceBytes / host.element_size() * getSize();
    const auto others = scratch(std::min<int64_t>(kSliceBytes, host.nbytes()));
    for (int64_t at = 0; at < host.numel(); at += step) {
      reduce_slices(call, number, host.narrow(0, at, std::min(step, host.numel() - at)), others);
    }
  }
  to_device(tensors[0], host.view(tensors[0].sizes()));
  return done();
}

MpiBackend::WorkPtr MpiBackend::reduce_scatter(std::vector<at::Tensor>& outputs,
                                               std::vector<std::vector<at::Tensor>>& inputs,
                                               const c10d::ReduceScatterOptions& options) {
  const CollectiveCall call = reduce_scatter_call(inputs[0], options);
  const uint64_t number = enter(call);
  std::vector<at::Tensor> parts;
  int64_t longest = 0;
  for (const at::Tensor& part : inputs[0]) {
    parts.push_back(on_host(part).view(-1));
    longest = std::max(longest, part.numel());
  }
  const at::Tensor host = for_host(outputs[0]);
  const int64_t item = host.element_size(), step = kSliceBytes / item;
  const auto others = scratch(std::min<int64_t>(kSliceBytes, host.nbytes()));
  for (int64_t at = 0; at < longest; at += step) {
    const auto count = [&](int64_t r) { return std::clamp<int64_t>(parts[r].numel() - at, 0, step); };
    const int64_t own = count(getRank());
    const auto messages = exchange(call, number);
    for (int64_t r = 0; r < getSize(); ++r) {
      if (r == getRank()) continue;
      messages->keep(others[r]);
      messages->keep(parts[r]);
      messages->receive(r, bytes_of(others[r]), own * item);
      messages->send(r, bytes_of(parts[r]) + at * item, count(r) * item);
    }
    messages->wait();
    if (own > 0) add_up(call, bytes_of(parts[getRank()]) + at * item, others, bytes_of(host) + at * item, own);
  }
  to_device(outputs[0], host);
  return done();
}

MpiBackend::WorkPtr MpiBackend::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                          std::vector<at::Tensor>& inputs, const c10d::AllgatherOptions&) {
  const CollectiveCall call = all_gather_call(outputs[0]);
  const uint64_t number = enter(call);
  const at::Tensor in = on_host(inputs[0]);
  std::vector<at::Tensor> hosts;
  auto messages = exchange(call, number);
  messages->keep(in);
  for (int64_t r = 0; r < getSize(); ++r) {
    if (r == getRank()) {
      outputs[0][r].copy_(inputs[0]);
      hosts.push_back(outputs[0][r]);
      continue;
    }
    hosts.push_back(for_host(outputs[0][r]));
    messages->keep(hosts[r]);
    messages->receive(r, bytes_of(hosts[r]), hosts[r].nbytes());
    messages->send(r, bytes_of(in), in.nbytes());
  }
  return c10::make_intrusive<MpiWork>(std::move(messages), outputs[0], std::move(hosts));
}

MpiBackend::WorkPtr MpiBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                              std::vector<int64_t>& output_splits, std::vector<int64_t>& input_splits,
                                              const c10d::AllToAllOptions&) {
  const CollectiveCall call = all_to_all_call(input, output_splits, input_splits);
  const uint64_t number = enter(call);
  const at::Tensor in = on_host(input), out = for_host(output);
  auto messages = exchange(call, number);
  messages->keep(in);
  messages->keep(out);
  char *from = bytes_of(in), *to = bytes_of(out), *own_from = nullptr, *own_to = nullptr;
  for (int64_t r = 0; r < getSize(); ++r) {
    const int64_t sent = call.sends[r] * in.element_size(), received = call.receives[r] * in.element_size();
    if (r == getRank()) {
      own_from = from;
      own_to = to;
    } else {
      messages->receive(r, to, received);
      messages->send(r, from, sent);
    }
    from += sent;
    to += received;
  }
  const int64_t own = call.sends[getRank()] * in.element_size();
  if (own > 0) std::memcpy(own_to, own_from, own);
  return c10::make_intrusive<MpiWork>(std::move(messages), std::vector<at::Tensor>{output},
                                      std::vector<at::Tensor>{out});
}

// Along a binomial tree.
MpiBackend::WorkPtr MpiBackend::broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) {
  const CollectiveCall call = broadcast_call(tensors[0], options);
  const uint64_t number = enter(call);
  const int64_t n = getSize(), own = (getRank() - options.rootRank + n) % n;  // counted from the root
  const at::Tensor host = own == 0 ? on_host(tensors[0]) : for_host(tensors[0]);
  const auto member = [&](int64_t position) { return (position + options.rootRank) % n; };
  int64_t step = 1;
  while (step < n && (own & step) == 0) step *= 2;
  if (own != 0) {
    const auto down = exchange(call, number);
    down->keep(host);
    down->receive(member(own - step), bytes_of(host), host.nbytes());
    down->wait();
  }
  const auto on = exchange(call, number);
  on->keep(host);
  for (step /= 2; step > 0; step /= 2) {
    if (own + step < n) on->send(member(own + step), bytes_of(host), host.nbytes());
  }
  on->wait();
  if (own != 0) to_device(tensors[0], host);
  return done();
}

MpiBackend::WorkPtr MpiBackend::barrier(const c10d::BarrierOptions&) {
  const CollectiveCall call;
  mpi_barrier(runtime_, channel_, name_of(call.kind), enter(call), runtime_.options().timeout);
  return done();
}

}  // namespace easydel
