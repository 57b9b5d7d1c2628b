// Collectives of thread ranks: the last to arrive plans the work, and waiting members help to do it.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "easydel/sharding/collectives/collective_call.h"
#include "easydel/sharding/world/gate.h"
#include "easydel/sharding/world/world.h"

namespace easydel {

class ThreadGroup;

// The state shared by all ranks of one run_ranks.
class ThreadWorldState {
 public:
  ThreadWorldState(int64_t size, const WorldOptions& options);

  std::shared_ptr<ThreadGroup> group(const std::string& name, std::span<const int64_t> ranks);
  const WorldOptions& options() const { return options_; }
  int64_t size() const { return static_cast<int64_t>(ended_.size()); }
  Patience patience() const { return patience_; }

  // The first failure ends the run: all collectives throw this message from now on.
  void fail(const std::string& message);
  std::string failure() const;

  void end(int64_t rank);  // its body has returned: collectives that still need it fail
  bool has_ended(int64_t rank) const { return ended_[rank].load(); }

  // What the rank waits for, for reports; empty when it does not wait.
  std::string place(int64_t rank) const;
  void set_place(int64_t rank, std::string place);

 private:
  const WorldOptions options_;
  const Patience patience_;
  std::vector<std::atomic<bool>> ended_;
  mutable std::mutex mutex_;
  std::optional<std::string> failure_;
  std::vector<std::string> places_;
  std::map<std::pair<std::string, std::vector<int64_t>>, std::shared_ptr<ThreadGroup>> groups_;
};

// One member's part of a collective. The tensors live at least until the collective is done.
struct ThreadPosting {
  CollectiveCall call;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;
  uint64_t number = 0;
};

class ThreadGroup {
 public:
  ThreadGroup(std::string name, std::vector<int64_t> ranks, ThreadWorldState& world);

  int64_t size() const { return static_cast<int64_t>(ranks_.size()); }

  // Members number their collectives from 0. Each is done, at the latest, when all have posted and one has waited.
  void post(int64_t member, uint64_t number, ThreadPosting posting);
  void wait(int64_t member, uint64_t number);

  void fail();                                         // wakes all members
  std::vector<int64_t> waits_for(int64_t rank) const;  // members that wait for this rank, which has ended

 private:
  struct Task {
    char* out;
    const char* in;
    int64_t part;        // of a reduction
    int64_t begin, end;  // bytes of a copy, elements of a reduction
  };
  struct Slot {
    Gate gate;  // use u of the slot: ready at 2u + 1, done at 2u + 2
    std::atomic<int64_t> arrived{0};
    std::atomic<uint64_t> claims{0};  // the use in the upper half, unclaimed tasks in the lower
    std::atomic<int64_t> tasks_left{0};
    std::vector<ThreadPosting> postings;
    std::vector<Task> tasks;
  };
  static constexpr uint64_t kSlots = 8;  // concurrent collectives

  void wait_for(Slot& slot, uint32_t count, int64_t member, uint64_t number, const CollectiveCall& call);
  [[noreturn]] void throw_failure(const CollectiveCall& call) const;
  std::vector<int64_t> missing(uint64_t number) const;  // world ranks that have not posted it
  std::string where(const CollectiveCall& call) const;

  void check(const Slot& slot, uint64_t number);
  void plan(Slot& slot);
  void plan_copy(Slot& slot, const at::Tensor& out, int64_t out_at, const at::Tensor& in, int64_t in_at, int64_t bytes);
  void plan_reduction(Slot& slot, int64_t part, int64_t elements);
  void run_task(Slot& slot, const Task& task);
  int64_t bytes_of(const Slot& slot) const;  // that all its tasks read
  void help(Slot& slot, uint32_t use);

  const std::string name_;
  const std::vector<int64_t> ranks_;
  ThreadWorldState& world_;
  std::vector<std::atomic<uint64_t>> posted_;  // collectives that each member has entered
  std::array<Slot, kSlots> slots_;
};

}  // namespace easydel
