// A faulty rank among processes. usage: mpirun -np N rank_faults MODE; the tests check the outcome.
#include <ATen/ATen.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "easydel/core/error.h"
#include "tests/sharding/collectives.h"

namespace easydel {
namespace {

constexpr int64_t kFaulty = 2;

void run(const std::string& mode) {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (mode == "no-start" && rank != nullptr && std::stoll(rank) == kFaulty) {
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
  const auto world = World::current();
  const bool faulty = world->rank() == kFaulty;
  if (mode == "late-start" && faulty) std::this_thread::sleep_for(std::chrono::hours(1));
  const auto group = collectives::everyone(*world);
  group->barrier();
  if (faulty) {
    if (mode == "kill") ::raise(SIGKILL);
    if (mode == "hang" || mode == "hang-in-broadcast") std::this_thread::sleep_for(std::chrono::hours(1));
    if (mode == "throw") fail<ShapeError>("[Toy] rank 2 does not like it.");
    if (mode == "leave") return;
    if (mode == "other-group") return world->group("pair", {{1, 2}})->barrier();
    if (mode == "other-size") return group->all_reduce(at::ones({7}));
    if (mode == "other-call") return group->broadcast(at::ones({4}, at::kHalf), 0);
    if (mode == "exit-status") std::exit(7);
  }
  if (mode == "hang-in-broadcast") {
    group->broadcast(at::ones({100000}), 0);
  } else {
    group->all_reduce(at::ones({100000}));
  }
  std::printf("rank %d is through\n", static_cast<int>(world->rank()));
}

}  // namespace
}  // namespace easydel

int main(int, char** argv) {
  try {
    easydel::run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
