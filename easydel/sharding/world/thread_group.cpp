#include "easydel/sharding/world/thread_group.h"

#include <algorithm>
#include <cstring>

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/reduce.h"

namespace easydel {
namespace {

constexpr int64_t kTaskBytes = 256 * 1024;   // of one task
constexpr int64_t kAloneBytes = 256 * 1024;  // up to this size waking others costs more than it saves

std::string seconds_text(std::chrono::milliseconds time) { return concat(time.count() / 1000.0, " s"); }

}  // namespace

ThreadGroup::ThreadGroup(std::string name, std::vector<int64_t> ranks, ThreadWorldState& world)
    : name_(std::move(name)), ranks_(std::move(ranks)), world_(world), posted_(ranks_.size()) {
  for (Slot& slot : slots_) slot.postings.resize(ranks_.size());
}

void ThreadGroup::post(int64_t member, uint64_t number, ThreadPosting posting) {
  Slot& slot = slots_[number % kSlots];
  const uint32_t use = static_cast<uint32_t>(number / kSlots);
  if (!slot.gate.has_reached(2 * use)) wait(member, number - kSlots);
  if (slot.gate.failed()) throw_failure(posting.call);
  posting.number = number;
  slot.postings[member] = std::move(posting);
  posted_[member].store(number + 1);
  if (slot.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < size()) return;

  slot.arrived.store(0, std::memory_order_relaxed);
  check(slot, number);
  plan(slot);
  if (bytes_of(slot) <= kAloneBytes) {
    for (const Task& task : slot.tasks) run_task(slot, task);
    slot.gate.advance(2);
    return;
  }
  slot.tasks_left.store(static_cast<int64_t>(slot.tasks.size()), std::memory_order_relaxed);
  slot.claims.store(static_cast<uint64_t>(use) << 32 | slot.tasks.size(), std::memory_order_release);
  slot.gate.advance(1);
}

int64_t ThreadGroup::bytes_of(const Slot& slot) const {
  int64_t bytes = 0;
  for (const Task& task : slot.tasks) {
    const bool is_copy = task.part < 0;
    bytes += (task.end - task.begin) * (is_copy ? 1 : size() * slot.postings[0].inputs[0].element_size());
  }
  return bytes;
}

void ThreadGroup::wait(int64_t member, uint64_t number) {
  Slot& slot = slots_[number % kSlots];
  const uint32_t use = static_cast<uint32_t>(number / kSlots);
  // Once it is done another member's next collective may have reused the slot, but not this member's posting.
  ThreadPosting& own = slot.postings[member];
  if (!slot.gate.has_reached(2 * use + 2)) {
    wait_for(slot, 2 * use + 1, member, number, own.call);
    help(slot, use);
    wait_for(slot, 2 * use + 2, member, number, own.call);
  }
  if (own.number != number) return;  // this member has reused the slot since
  own.inputs.clear();
  own.outputs.clear();
}

void ThreadGroup::help(Slot& slot, uint32_t use) {
  for (;;) {
    uint64_t claim = slot.claims.load(std::memory_order_acquire);
    do {
      if (claim >> 32 != use || (claim & 0xffffffff) == 0) return;
    } while (!slot.claims.compare_exchange_weak(claim, claim - 1, std::memory_order_acq_rel));
    // The tasks are this use's and stay until the claimed one is done.
    run_task(slot, slot.tasks[(claim & 0xffffffff) - 1]);
    if (slot.tasks_left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      slot.gate.advance(1);
      return;
    }
  }
}

void ThreadGroup::wait_for(Slot& slot, uint32_t count, int64_t member, uint64_t number, const CollectiveCall& call) {
  if (slot.gate.has_reached(count)) return;
  slot.gate.wait(count, world_.patience(), Gate::Clock::time_point::min());
  if (slot.gate.has_reached(count)) return;
  for (const int64_t rank : missing(number)) {
    if (world_.has_ended(rank)) {
      world_.fail(concat(where(call), "rank ", rank,
                         " has finished and will not arrive. Every member must call the same ", "collectives."));
    }
  }
  world_.set_place(ranks_[member], concat(name_of(call.kind), " of group \"", name_, "\""));
  slot.gate.wait(count, {}, Gate::Clock::now() + world_.options().timeout);
  world_.set_place(ranks_[member], "");
  if (slot.gate.has_reached(count)) return;
  if (slot.gate.failed()) throw_failure(call);
  const std::vector<int64_t> late = missing(number);
  std::string message = concat(where(call), "no result after ", seconds_text(world_.options().timeout));
  if (!late.empty()) message += concat("; ", describe_ranks(late), late.size() == 1 ? " has" : " have", " not arrived");
  for (const int64_t rank : late) {
    const std::string place = world_.place(rank);
    if (!place.empty()) message += concat(", rank ", rank, " is waiting in ", place);
  }
  world_.fail(message + ". EASYDEL_TIMEOUT sets the limit in seconds.");
  throw_failure(call);
}

void ThreadGroup::throw_failure(const CollectiveCall& call) const {
  std::string message = world_.failure();
  if (!message.starts_with("[")) message = where(call) + message;
  throw DistributedError(message);
}

std::vector<int64_t> ThreadGroup::missing(uint64_t number) const {
  std::vector<int64_t> late;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (posted_[i].load() <= number) late.push_back(ranks_[i]);
  }
  return late;
}

std::string ThreadGroup::where(const CollectiveCall& call) const {
  return concat("[", name_of(call.kind), "] group \"", name_, "\" of ", describe_ranks(ranks_), ": ");
}

void ThreadGroup::fail() {
  for (Slot& slot : slots_) slot.gate.fail();
}

std::vector<int64_t> ThreadGroup::waits_for(int64_t rank) const {
  const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
  std::vector<int64_t> ahead;
  if (found == ranks_.end()) return ahead;
  const uint64_t own = posted_[found - ranks_.begin()].load();
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (posted_[i].load() > own) ahead.push_back(ranks_[i]);
  }
  return ahead;
}

void ThreadGroup::check(const Slot& slot, uint64_t number) {
  std::vector<const CollectiveCall*> calls;
  for (const ThreadPosting& posting : slot.postings) calls.push_back(&posting.call);
  if (agree(calls)) return;
  world_.fail(disagreement(name_, number, calls, ranks_));
  throw_failure(*calls[0]);
}

void ThreadGroup::plan(Slot& slot) {
  slot.tasks.clear();
  std::vector<ThreadPosting>& p = slot.postings;
  const int64_t n = size();
  switch (p[0].call.kind) {
    case CollectiveKind::Barrier: return;
    case CollectiveKind::AllReduce: return plan_reduction(slot, 0, p[0].inputs[0].numel());
    case CollectiveKind::ReduceScatter:
      for (int64_t r = 0; r < n; ++r) plan_reduction(slot, r, p[r].outputs[0].numel());
      return;
    case CollectiveKind::Broadcast: {
      const at::Tensor& in = p[p[0].call.detail].inputs[0];
      for (int64_t r = 0; r < n; ++r) {
        if (r != p[0].call.detail) plan_copy(slot, p[r].outputs[0], 0, in, 0, in.nbytes());
      }
      return;
    }
    case CollectiveKind::AllGather:
      for (int64_t to = 0; to < n; ++to) {
        for (int64_t from = 0; from < n; ++from) {
          const at::Tensor& in = p[from].inputs[0];
          plan_copy(slot, p[to].outputs[from], 0, in, 0, in.nbytes());
        }
      }
      return;
    case CollectiveKind::AllToAll:
    case CollectiveKind::Shift:
      for (int64_t from = 0; from < n; ++from) {
        const at::Tensor& in = p[from].inputs[0];
        int64_t in_at = 0;
        for (int64_t to = 0; to < n; ++to) {
          const int64_t bytes = p[from].call.sends[to] * in.element_size();
          int64_t out_at = 0;
          for (int64_t r = 0; r < from; ++r) out_at += p[to].call.receives[r] * in.element_size();
          plan_copy(slot, p[to].outputs[0], out_at, in, in_at, bytes);
          in_at += bytes;
        }
      }
      return;
  }
}

void ThreadGroup::plan_copy(Slot& slot, const at::Tensor& out, int64_t out_at, const at::Tensor& in, int64_t in_at,
                            int64_t bytes) {
  char* to = static_cast<char*>(out.mutable_data_ptr()) + out_at;
  const char* from = static_cast<const char*>(in.const_data_ptr()) + in_at;
  if (to == from) return;
  for (int64_t at = 0; at < bytes; at += kTaskBytes) {
    slot.tasks.push_back({to, from, -1, at, std::min(bytes, at + kTaskBytes)});
  }
}

void ThreadGroup::plan_reduction(Slot& slot, int64_t part, int64_t elements) {
  const int64_t step = kTaskBytes / 4;
  for (int64_t at = 0; at < elements; at += step) {
    slot.tasks.push_back({nullptr, nullptr, part, at, std::min(elements, at + step)});
  }
}

void ThreadGroup::run_task(Slot& slot, const Task& task) {
  if (task.part < 0) {
    std::memcpy(task.out + task.begin, task.in + task.begin, task.end - task.begin);
    return;
  }
  std::vector<ThreadPosting>& p = slot.postings;
  const CollectiveCall& call = p[0].call;
  std::vector<const void*> ins;
  std::vector<void*> outs;
  for (ThreadPosting& posting : p) {
    ins.push_back(posting.inputs[task.part].const_data_ptr());
    if (call.kind == CollectiveKind::AllReduce) outs.push_back(posting.outputs[0].mutable_data_ptr());
  }
  if (call.kind == CollectiveKind::ReduceScatter) outs.push_back(p[task.part].outputs[0].mutable_data_ptr());
  reduce(call.dtype, static_cast<ReduceOp>(call.detail), ins, outs, task.begin, task.end);
}

}  // namespace easydel
