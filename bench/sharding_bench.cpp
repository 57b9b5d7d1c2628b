// How fast ranks exchange tensors, against a copy of the same bytes in the same run.
// usage: sharding_bench [RANKS [MIB]], on threads; or under mpirun, without RANKS
#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>

#include "easydel/core/dtype.h"
#include "easydel/core/error.h"
#include "easydel/sharding/world/world.h"

namespace easydel {
namespace {

constexpr int kRounds = 15;
constexpr double kMaxCopies = 2.0;  // an all_reduce between two thread ranks

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Bench {
  World& world;
  const Group& group;
  int64_t bytes;
  at::Tensor source, target;

  // The best of several rounds, alternating with a copy on rank 0 while the others sleep.
  double copies(const char* name, const std::function<void()>& work) const {
    double copy = 1e9, best = 1e9;
    for (int round = 0; round < kRounds; ++round) {
      if (world.rank() == 0) {
        copy = std::min(
            copy, seconds([&] { std::memcpy(target.mutable_data_ptr(), source.const_data_ptr(), source.nbytes()); }));
      }
      group.barrier();
      best = std::min(best, seconds(work));
      group.barrier();
    }
    if (world.rank() == 0) {
      std::printf("%-28s %8.2f ms  %6.2f GB/s  %5.2f copies (a copy %.2f ms)\n", name, best * 1e3, bytes / best / 1e9,
                  best / copy, copy * 1e3);
    }
    return best / copy;
  }

  void latency(const char* name, const std::function<void()>& work) const {
    constexpr int kCalls = 300;
    double best = 1e9;
    for (int round = 0; round < 5; ++round) {
      group.barrier();
      best = std::min(best, seconds([&] {
                              for (int i = 0; i < kCalls; ++i) work();
                            }) / kCalls);
    }
    if (world.rank() == 0) std::printf("%-28s %8.2f us\n", name, best * 1e6);
  }
};

// Copies that a float32 all_reduce is worth.
double measure(World& world, int64_t bytes) {
  std::vector<int64_t> ranks(world.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto group = world.group("all", ranks);
  Bench bench{world, *group, bytes, at::ones({bytes}, at::kByte), at::zeros({bytes}, at::kByte)};
  const int64_t n = world.size();

  double all_reduce = 0;
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const at::Tensor t = at::zeros({bytes / dtype_bytes(dtype)}, dtype);
    const double copies = bench.copies(concat("all_reduce ", dtype_name(dtype)).c_str(), [&] { group->all_reduce(t); });
    if (dtype == at::kFloat) all_reduce = copies;
  }
  const at::Tensor all = at::ones({bytes / 4});
  const at::Tensor part = at::ones({bytes / 4 / n});
  const std::vector<int64_t> counts(n, part.numel());
  std::vector<at::Tensor> parts(n, part);
  bench.copies("all_gather", [&] { group->all_gather(part, counts); });
  bench.copies("reduce_scatter", [&] { group->reduce_scatter(parts); });
  bench.copies("all_to_all", [&] { group->all_to_all(all.narrow(0, 0, part.numel() * n), counts, counts); });
  bench.copies("shift", [&] { group->shift(all); });
  bench.copies("broadcast", [&] { group->broadcast(all, 0); });

  for (const int64_t elements : {int64_t{1}, int64_t{1024}, int64_t{8192}}) {
    const at::Tensor small = at::zeros({elements});
    const std::vector<int64_t> each(n, elements);
    std::vector<at::Tensor> scattered(n, small);
    const std::string size = concat(elements * 4, " B");
    bench.latency(concat("all_reduce ", size).c_str(), [&] { group->all_reduce(small); });
    bench.latency(concat("all_gather ", size).c_str(), [&] { group->all_gather(small, each); });
    bench.latency(concat("reduce_scatter ", size).c_str(), [&] { group->reduce_scatter(scattered); });
  }
  bench.latency("barrier", [&] { group->barrier(); });
  return all_reduce;
}

int run(int argc, char** argv) {
  const auto world = World::current();
  const int64_t count = argc > 1 ? std::atoll(argv[1]) : 2;
  const int64_t bytes = (argc > 2 ? std::atoll(argv[2]) : 64) << 20;
  if (world->size() > 1) {
    measure(*world, bytes);
    return 0;
  }
  double start = 1e9;
  for (int round = 0; round < 20; ++round) {
    start = std::min(start, seconds([&] { run_ranks(count, [](World&) {}); }));
  }
  std::printf("starting and ending %d ranks %8.2f us\n", static_cast<int>(count), start * 1e6);
  double copies = 0;
  run_ranks(count, [&](World& ranks) {
    const double result = measure(ranks, bytes);
    if (ranks.rank() == 0) copies = result;
  });
  if (count != 2) return 0;
  std::printf("all_reduce between two thread ranks: %.2f copies, at most %.2f wanted\n", copies, kMaxCopies);
  return copies <= kMaxCopies ? 0 : 1;
}

}  // namespace
}  // namespace easydel

int main(int argc, char** argv) {
  try {
    return easydel::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
