#include "easydel/sharding/world/store_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace easydel {
namespace {

using testing::HasSubstr;

class FakeWork : public c10d::Work {
 public:
  explicit FakeWork(bool completed) : completed_now_(completed) {}
  bool isCompleted() override { return completed_now_; }

 private:
  const bool completed_now_;
};

// Ranks 0 and 1 in one process, with a timeout of a fifth of a second.
struct Rank {
  Rank(c10::intrusive_ptr<c10d::Store> store, int64_t rank) : group(std::make_shared<WatchedGroup>()) {
    group->name = "fsdp";
    group->ranks = {0, 1};
    monitor = std::make_unique<StoreMonitor>(store, rank, std::chrono::milliseconds(200),
                                             [this](const std::string& message) { failure.set_value(message); });
  }
  void enter(bool completed) {
    const uint64_t number = group->entered++;
    monitor->watch(group, number, "all_reduce", c10::make_intrusive<FakeWork>(completed));
  }

  std::shared_ptr<WatchedGroup> group;
  std::promise<std::string> failure;
  std::future<std::string> failed = failure.get_future();
  std::unique_ptr<StoreMonitor> monitor;
};

constexpr auto kSoon = std::chrono::seconds(30);

TEST(StoreMonitor, NamesTheLateRankOnAllRanks) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Rank a(store, 0), b(store, 1);
  a.enter(true);
  b.enter(true);
  a.enter(false);
  ASSERT_EQ(a.failed.wait_for(kSoon), std::future_status::ready);
  EXPECT_EQ(a.failed.get(),
            "[all_reduce] group \"fsdp\" of ranks 0 and 1: no result after 0.2 s; rank 1 has not arrived. "
            "EASYDEL_TIMEOUT sets the limit in seconds.");
  ASSERT_EQ(b.failed.wait_for(kSoon), std::future_status::ready);
  EXPECT_THAT(b.failed.get(), HasSubstr("rank 1 has not arrived"));
}

TEST(StoreMonitor, NamesTheRankThatHasDied) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Rank a(store, 0);
  {
    Rank b(store, 1);
    b.enter(false);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  a.enter(false);
  ASSERT_EQ(a.failed.wait_for(kSoon), std::future_status::ready);
  EXPECT_THAT(a.failed.get(), HasSubstr("rank 1 does not respond: it has died"));
}

TEST(StoreMonitor, ReportsThatAllHaveArrived) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Rank a(store, 0), b(store, 1);
  a.enter(false);
  b.enter(true);
  ASSERT_EQ(a.failed.wait_for(kSoon), std::future_status::ready);
  EXPECT_THAT(a.failed.get(), HasSubstr("all have arrived, but it does not complete"));
}

TEST(StoreMonitor, StaysSilentOnSuccess) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Rank a(store, 0), b(store, 1);
  for (int i = 0; i < 10; ++i) {
    a.enter(true);
    b.enter(true);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(a.failed.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  EXPECT_EQ(b.failed.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
}

}  // namespace
}  // namespace easydel
