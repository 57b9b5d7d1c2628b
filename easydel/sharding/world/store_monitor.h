// Monitors collectives that the host does not wait for, such as those on a GPU: ranks publish their progress through a
// store, so that the one at fault can be named.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace easydel {

struct WatchedGroup {
  std::string name;
  std::vector<int64_t> ranks;  // of the world
  std::atomic<uint64_t> entered{0};

  std::string key() const;                           // the same on all members
  std::string where(const std::string& what) const;  // "[all_reduce] group "fsdp" of ranks 0 and 1: "
};

class StoreMonitor {
 public:
  using OnFailure = std::function<void(const std::string& message)>;

  // Calls on_failure from its own thread, once, when a collective takes longer than the timeout or another rank has
  // reported a failure. The store must not be shared with other users.
  StoreMonitor(c10::intrusive_ptr<c10d::Store> store, int64_t rank, std::chrono::milliseconds timeout,
               OnFailure on_failure);
  ~StoreMonitor();
  StoreMonitor(const StoreMonitor&) = delete;
  StoreMonitor& operator=(const StoreMonitor&) = delete;

  void watch(std::shared_ptr<WatchedGroup> group, uint64_t number, const char* what,
             c10::intrusive_ptr<c10d::Work> work);

 private:
  struct Watched {
    std::shared_ptr<WatchedGroup> group;
    uint64_t number;
    const char* what;
    c10::intrusive_ptr<c10d::Work> work;
    std::chrono::steady_clock::time_point since;
  };

  void run();
  void beat();
  std::string look();  // the failure, or empty
  std::string diagnose(const Watched& watched);

  const c10::intrusive_ptr<c10d::Store> store_;
  const int64_t rank_;
  const std::chrono::milliseconds timeout_, period_;
  const OnFailure on_failure_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::list<Watched> watched_;
  std::map<std::string, std::shared_ptr<WatchedGroup>> groups_;
  uint64_t beats_ = 0;
  std::thread thread_;
};

// The key under which a rank reports its failure.
inline constexpr const char* kFailureKey = "failure";

}  // namespace easydel
