// Tests that every backend must pass, with the calling rank's world: run on threads, on MPI processes, on GPUs.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "easydel/sharding/world/world.h"

namespace easydel::collectives {

inline std::shared_ptr<Group> everyone(World& world) {
  std::vector<int64_t> ranks(world.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return world.group("all", ranks);
}

inline std::vector<int64_t> shares(int64_t count, int64_t members) {
  std::vector<int64_t> sizes;
  for (int64_t r = 0; r < members; ++r) sizes.push_back(count * (r + 1) / members - count * r / members);
  return sizes;
}

// Small integers, different for each rank, exact in every dtype.
inline at::Tensor numbers(int64_t rank, at::IntArrayRef shape, at::TensorOptions options) {
  const int64_t count = c10::multiply_integers(shape);
  const at::Tensor values = at::arange(count, at::kLong).add(3 * rank + 1).remainder(5).view(shape);
  return values.to(c10::typeMetaToScalarType(options.dtype())).to(options);
}

// For any dtype, also those without comparison on a GPU.
inline bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         at::equal(a.view(-1).view(at::kByte), b.view(-1).view(at::kByte));
}

inline void all_reduce_sums(World& world, at::TensorOptions options) {
  const auto group = everyone(world);
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{5000}, int64_t{300001}}) {
    const at::Tensor t = numbers(world.rank(), {count}, options);
    at::Tensor expected = at::zeros({count}, options.dtype(at::kDouble));
    for (int64_t r = 0; r < world.size(); ++r) expected += numbers(r, {count}, options).to(at::kDouble);
    group->all_reduce(t);
    EXPECT_TRUE(at::equal(t.to(at::kDouble), expected)) << t.scalar_type() << " of " << count;
  }
}

// Values whose sum depends on the order, and for the small dtypes on how often it is rounded.
inline void sums_have_the_same_bits(World& world, at::TensorOptions options) {
  const auto group = everyone(world);
  const auto values = [&](int64_t rank) {
    return (at::sin(at::arange(20000, at::kDouble) * (rank + 1)) * at::pow(10.0, (at::arange(20000) + rank) % 7 - 3))
        .to(options);
  };
  const bool small = at::empty({1}, options).element_size() == 2;
  at::Tensor expected = values(0).to(small ? at::kFloat : c10::typeMetaToScalarType(options.dtype()));
  for (int64_t r = 1; r < world.size(); ++r) expected += values(r).to(expected.scalar_type());
  expected = expected.to(options);

  const at::Tensor sum = values(world.rank());
  group->all_reduce(sum);
  EXPECT_TRUE(at::equal(sum, expected)) << options.dtype();
  const at::Tensor own = group->reduce_scatter(values(world.rank()).split_with_sizes(shares(20000, world.size())));
  const at::Tensor wanted = expected.split_with_sizes(shares(20000, world.size()))[world.rank()];
  EXPECT_TRUE(at::equal(own, wanted)) << options.dtype();
}

inline void all_reduce_takes_extremes(World& world, at::TensorOptions options) {
  const auto group = everyone(world);
  const at::Tensor high = numbers(world.rank(), {3, 5}, options), low = high.clone();
  at::Tensor max = numbers(0, {3, 5}, options), min = max.clone();
  for (int64_t r = 1; r < world.size(); ++r) {
    max = at::maximum(max, numbers(r, {3, 5}, options));
    min = at::minimum(min, numbers(r, {3, 5}, options));
  }
  group->all_reduce(high, ReduceOp::Max);
  group->all_reduce(low, ReduceOp::Min);
  EXPECT_TRUE(at::equal(high, max));
  EXPECT_TRUE(at::equal(low, min));
}

// Member r gives 3 r elements.
inline void all_gather_takes_uneven_parts(World& world, at::TensorOptions options) {
  const auto group = everyone(world);
  for (const int64_t scale : {int64_t{3}, int64_t{50021}}) {
    std::vector<int64_t> counts;
    for (int64_t r = 0; r < world.size(); ++r) counts.push_back(scale * r);
    const auto all = group->all_gather(numbers(world.rank(), {counts[world.rank()]}, options), counts);
    EXPECT_EQ(static_cast<int64_t>(all.size()), world.size());
    for (int64_t r = 0; r < world.size(); ++r) {
      EXPECT_TRUE(same(all[r], numbers(r, {counts[r]}, options))) << options.dtype() << " member " << r;
    }
  }
}

inline void reduce_scatter_takes_uneven_parts(World& world, at::TensorOptions options) {
  const auto group = everyone(world);
  for (const int64_t scale : {int64_t{3}, int64_t{50021}}) {
    std::vector<at::Tensor> parts;
    for (int64_t r = 0; r < world.size(); ++r) parts.push_back(numbers(world.rank() + r, {scale * r, 2}, options));
    const at::Tensor sum = group->reduce_scatter(parts);
    const std::vector<int64_t> shape{scale * world.rank() * 2};
    at::Tensor expected = at::zeros(shape, options.dtype(at::kDouble));
    for (int64_t r = 0; r < world.size(); ++r) expected += numbers(r + world.rank(), shape, options).to(at::kDouble);
    EXPECT_TRUE(at::equal(sum.to(at::kDouble), expected)) << options.dtype();
  }
}

// Rank a sends a + 2 b rows to rank b.
inline void all_to_all_sends_rows(World& world, at::TensorOptions options) {
  const auto group = everyone(world);
  const auto sent = [&](int64_t from, int64_t to) { return numbers(from * 10 + to, {from + 2 * to, 3}, options); };
  std::vector<int64_t> in, out;
  std::vector<at::Tensor> rows, expected;
  for (int64_t r = 0; r < world.size(); ++r) {
    rows.push_back(sent(world.rank(), r));
    expected.push_back(sent(r, world.rank()));
    in.push_back(rows.back().size(0));
    out.push_back(expected.back().size(0));
  }
  EXPECT_TRUE(same(group->all_to_all(at::cat(rows), in, out), at::cat(expected)));
}

inline void shift_goes_round(World& world, at::TensorOptions options) {
  const auto group = everyone(world);
  const int64_t before = (world.rank() + world.size() - 1) % world.size();
  for (const int64_t rows : {int64_t{2}, int64_t{40000}}) {
    const at::Tensor got = group->shift(numbers(world.rank(), {rows, 7}, options));
    EXPECT_TRUE(same(got, numbers(before, {rows, 7}, options)));
  }
}

inline void broadcast_comes_from_the_root(World& world, at::TensorOptions options) {
  const auto group = everyone(world);
  for (int64_t root = 0; root < world.size(); ++root) {
    const at::Tensor t = numbers(world.rank(), {4, 1000 * root + 1}, options);
    group->broadcast(t, root);
    EXPECT_TRUE(same(t, numbers(root, {4, 1000 * root + 1}, options)));
  }
}

// Several at a time, with other collectives between them, waited for in a different order.
inline void started_ones_overlap(World& world, at::TensorOptions options) {
  const auto group = everyone(world);
  const int64_t before = (world.rank() + world.size() - 1) % world.size();
  const std::vector<int64_t> counts(world.size(), 70000);
  std::vector<at::Tensor> gathered[12];
  at::Tensor shifted[12];
  std::unique_ptr<Pending> gathers[12], shifts[12];
  for (int i = 0; i < 12; ++i) {
    const at::Tensor local = numbers(world.rank() + i, {70000}, options);
    gathers[i] = group->start_all_gather(local, counts, gathered[i]);
    shifts[i] = group->start_shift(local, shifted[i]);
  }
  const at::Tensor sum = at::ones({3}, options);
  group->all_reduce(sum);
  EXPECT_EQ(sum[0].item<double>(), static_cast<double>(world.size()));
  for (int i = 11; i >= 0; --i) {
    gathers[i]->wait();
    shifts[i]->wait();
    for (int64_t r = 0; r < world.size(); ++r) {
      EXPECT_TRUE(same(gathered[i][r], numbers(r + i, {70000}, options)));
    }
    EXPECT_TRUE(same(shifted[i], numbers(before + i, {70000}, options)));
  }
}

// Even and odd ranks each form a group, then pairs.
inline void groups_are_independent(World& world, at::TensorOptions options) {
  std::vector<int64_t> same;
  for (int64_t r = world.rank() % 2; r < world.size(); r += 2) same.push_back(r);
  const auto parity = world.group("parity", same);
  EXPECT_EQ(parity->rank(), world.rank() / 2);
  EXPECT_EQ(parity->size(), static_cast<int64_t>(same.size()));
  EXPECT_EQ(world.group("parity", same), parity);
  at::Tensor t = at::full({5}, static_cast<double>(world.rank()), options);
  parity->all_reduce(t);
  EXPECT_EQ(t[0].item<double>(), static_cast<double>(std::accumulate(same.begin(), same.end(), int64_t{0})));

  // In the other order: the last rank is member 0.
  std::vector<int64_t> down(world.size());
  std::iota(down.rbegin(), down.rend(), 0);
  const auto reversed = world.group("down", down);
  EXPECT_EQ(reversed->rank(), world.size() - 1 - world.rank());
  t = at::full({2}, static_cast<double>(world.rank()), options);
  reversed->broadcast(t, 0);
  EXPECT_EQ(t[1].item<double>(), static_cast<double>(world.size() - 1));
}

// Hundreds, small and large, between ranks that arrive at random times.
inline void order_holds_under_random_delays(World& world, at::TensorOptions options) {
  const auto group = everyone(world);
  uint64_t state = 99 + world.rank();
  for (int i = 0; i < 300; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    if ((state >> 60) == 0) std::this_thread::sleep_for(std::chrono::microseconds(state >> 56));
    const int64_t count = i % 10 == 0 ? 200000 : 5 + i;
    const at::Tensor t = at::full({count}, static_cast<double>(world.rank() + i), options);
    group->all_reduce(t);
    const double sum = static_cast<double>(world.size() * (world.size() - 1) / 2 + i * world.size());
    EXPECT_EQ(t[count - 1].item<double>(), sum) << i;
    EXPECT_EQ(t[0].item<double>(), sum) << i;
  }
}

// More elements than an int can count.
inline void large_ones_pass(World& world, at::TensorOptions options) {
  const auto group = everyone(world);
  const int64_t bytes = (int64_t{1} << 31) + 5;
  const at::Tensor t = at::full({bytes}, world.rank() + 1, options);
  t[bytes - 1] = world.rank() + 100;
  const at::Tensor got = group->shift(t);
  const int64_t before = (world.rank() + world.size() - 1) % world.size();
  EXPECT_TRUE((got.narrow(0, 0, bytes - 1) == before + 1).all().item<bool>());
  EXPECT_EQ(got[bytes - 1].item<int64_t>(), before + 100);
  group->all_reduce(t);
  EXPECT_TRUE((t.narrow(0, 0, bytes - 1) == world.size() * (world.size() + 1) / 2).all().item<bool>());
}

inline void bytes_are_counted(World& world, at::TensorOptions options) {
  const auto group = everyone(world);
  const int64_t n = world.size(), r = world.rank();
  const int64_t item = static_cast<int64_t>(at::empty({1}, options).nbytes());
  world.stats().reset();
  group->all_reduce(at::ones({12 * n}, options));
  group->all_reduce(at::ones({12 * n}, options));
  std::vector<int64_t> counts(n), splits(n, 2);
  std::iota(counts.begin(), counts.end(), 1);
  group->all_gather(at::ones({r + 1}, options), counts);
  std::vector<at::Tensor> parts;
  for (int64_t i = 0; i < n; ++i) parts.push_back(at::ones({i + 1}, options));
  group->reduce_scatter(parts);
  group->all_to_all(at::ones({2 * n, 5}, options), splits, splits);
  group->shift(at::ones({9}, options));
  group->broadcast(at::ones({8}, options), 0);
  group->barrier();
  const auto check = [&](const char* collective, int64_t calls, int64_t elements) {
    if (n == 1 && world.backend_name() != "nccl") calls = 0;  // nothing is sent, and the backend is not called
    const auto found = world.stats().entries.find({"all", collective});
    const auto entry = found == world.stats().entries.end() ? CommunicationStats::Entry{} : found->second;
    EXPECT_EQ(entry.calls, calls) << collective;
    EXPECT_EQ(entry.bytes, elements * item) << collective;
  };
  check("all_reduce", 2, 2 * 2 * (n - 1) * 12);
  check("all_gather", 1, (n - 1) * (r + 1));
  check("reduce_scatter", 1, n * (n + 1) / 2 - (r + 1));
  check("all_to_all", 1, 2 * 5 * (n - 1));
  check("shift", 1, n == 1 ? 0 : 9);
  check("broadcast", 1, r == 0 ? 8 * (n - 1) : 0);
  check("barrier", 1, 0);
}

}  // namespace easydel::collectives
