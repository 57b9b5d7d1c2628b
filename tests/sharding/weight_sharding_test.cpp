#include "easydel/sharding/weight_sharding.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "tests/sharding/print_interval.h"
#include "tests/support/draw.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::ThrowsMessage;
using testing_support::Draw;

constexpr LogicalAxis kInner = LogicalAxis::MlpIntermediate;

std::shared_ptr<const Parallel> parallel_on(const Mesh& mesh, std::shared_ptr<World> world) {
  return std::make_shared<Parallel>(std::make_shared<DeviceMesh>(mesh, std::move(world)), PartitionAxis(),
                                    AxisNames{"ep"});
}

Mesh mesh_of(const std::vector<int64_t>& dims, const std::vector<int64_t>& dcn = {}) {
  int64_t devices = 1;
  for (const int64_t dim : dims) devices *= dim;
  for (const int64_t dim : dcn) devices *= dim;
  return create_mesh({.axis_dims = dims, .dcn_axis_dims = dcn, .device_count = devices});
}

// As seen by rank `rank`, on simulated ranks.
WeightSharding planned(std::vector<Dim> dims, PartitionSpec spec, const Mesh& mesh, int64_t rank = 0) {
  return {std::move(dims), std::move(spec), parallel_on(mesh, planned_world(mesh.size(), rank))};
}

std::vector<std::vector<int64_t>> stored_shapes(const std::vector<Dim>& dims, const PartitionSpec& spec,
                                                const Mesh& mesh) {
  std::vector<std::vector<int64_t>> shapes;
  for (int64_t rank = 0; rank < mesh.size(); ++rank) {
    shapes.push_back(planned(dims, spec, mesh, rank).stored_shape());
    EXPECT_EQ(shape_of(planned(dims, spec, mesh).stored(rank)), shapes.back());  // every rank knows of every other
  }
  return shapes;
}

std::vector<int64_t> shape_of_dims(const std::vector<Dim>& dims) {
  std::vector<int64_t> shape;
  for (const Dim& dim : dims) shape.push_back(dim.size);
  return shape;
}

TEST(WeightSharding, StoresAccordingToTheSpec) {
  const std::vector<Dim> dims{6, 10};
  using Shapes = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(stored_shapes(dims, {}, mesh_of({1, 2, 1, 1, 1})), (Shapes{{6, 10}, {6, 10}}));
  EXPECT_EQ(stored_shapes(dims, {"fsdp"}, mesh_of({1, 2, 1, 1, 1})), (Shapes{{3, 10}, {3, 10}}));
  EXPECT_EQ(stored_shapes(dims, {nullptr, "fsdp"}, mesh_of({1, 4, 1, 1, 1})), (Shapes{{6, 2}, {6, 3}, {6, 2}, {6, 3}}));
  EXPECT_EQ(stored_shapes(dims, {"fsdp", "tp"}, mesh_of({1, 2, 1, 2, 1})), (Shapes{{3, 5}, {3, 5}, {3, 5}, {3, 5}}));
  EXPECT_EQ(stored_shapes(dims, {"tp"}, mesh_of({1, 4, 1, 1, 1})), (Shapes{{6, 10}, {6, 10}, {6, 10}, {6, 10}}));
  EXPECT_EQ(stored_shapes({Dim(2)}, {"fsdp"}, mesh_of({1, 3, 1, 1, 1})), (Shapes{{0}, {1}, {1}}));
  EXPECT_EQ(stored_shapes({}, {}, mesh_of({1, 2, 1, 1, 1})), (Shapes{{}, {}}));  // a scalar
}

TEST(WeightSharding, VariesTheFirstAxisSlowest) {
  const Mesh mesh = mesh_of({1, 2, 1, 1, 2});
  const auto first_places = [&](const PartitionSpec& spec) {
    std::vector<int64_t> begins;
    for (int64_t rank = 0; rank < 4; ++rank) begins.push_back(planned({8}, spec, mesh, rank).stored()[0][0].begin);
    return begins;
  };
  EXPECT_THAT(first_places({SpecDim{"fsdp", "sp"}}), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(first_places({SpecDim{"sp", "fsdp"}}), ElementsAre(0, 4, 2, 6));
}

TEST(WeightSharding, SplitsAtWholeHeadsWhereTheSpecBeginsWithTheAxisOfHeads) {
  const std::vector<Dim> dims{Dim::fused_heads({3, 3}, 4), 5};  // 36 rows: three heads of q, k and v
  const WeightSharding first = planned(dims, {SpecDim{"tp", "fsdp"}}, mesh_of({1, 2, 1, 2, 1}), 0);
  EXPECT_THAT(first.computed()[0], ElementsAre(Interval{0, 4}, Interval{12, 16}, Interval{24, 28}));
  EXPECT_THAT(first.stored()[0], ElementsAre(Interval{0, 4}, Interval{12, 14}));  // the first half of these
  const WeightSharding last = planned(dims, {SpecDim{"tp", "fsdp"}}, mesh_of({1, 2, 1, 2, 1}), 3);
  EXPECT_THAT(last.computed()[0], ElementsAre(Interval{4, 12}, Interval{16, 24}, Interval{28, 36}));
  EXPECT_THAT(last.stored()[0], ElementsAre(Interval{20, 24}, Interval{28, 36}));
}

TEST(WeightSharding, SplitsEvenlyOtherwise) {
  const std::vector<Dim> dims{Dim::fused_heads({3, 3}, 4), 5};
  const WeightSharding sharding = planned(dims, {SpecDim{"fsdp", "tp"}}, mesh_of({1, 2, 1, 2, 1}), 3);
  EXPECT_THAT(sharding.stored()[0], ElementsAre(Interval{27, 36}));
  EXPECT_THAT(sharding.computed()[0], ElementsAre(Interval{4, 12}, Interval{16, 24}, Interval{28, 36}));
}

TEST(WeightSharding, SplitsTheInnerDimensionOfExpertsOverTheRemainingAxes) {
  const std::vector<Dim> dims{Dim(4, LogicalAxis::Expert), Dim::halves(3, kInner), 5};
  const WeightSharding sharding = planned(dims, {"ep", "tp", "fsdp"}, mesh_of({1, 2, 2, 2, 1}), 7);
  EXPECT_THAT(sharding.stored_shape(), ElementsAre(2, 4, 3));
  EXPECT_THAT(sharding.computed()[0], ElementsAre(Interval{2, 4}));
  EXPECT_THAT(sharding.computed()[1], ElementsAre(Interval{1, 3}, Interval{4, 6}));
  EXPECT_THAT(sharding.computed()[2], ElementsAre(Interval{0, 5}));
}

TEST(WeightSharding, KnowsWhenEveryRankStoresAllOfIt) {
  EXPECT_TRUE(planned({6}, {}, mesh_of({1, 2, 1, 1, 1})).is_whole());
  EXPECT_TRUE(planned({6}, {"tp"}, mesh_of({1, 2, 1, 1, 1})).is_whole());
  EXPECT_FALSE(planned({6}, {"fsdp"}, mesh_of({1, 2, 1, 1, 1})).is_whole());
}

TEST(WeightSharding, NamesAnAxisThatTheMeshLacks) {
  EXPECT_THAT([] { planned({6, 4}, {"fsdp", {"tp", "pp"}}, mesh_of({1, 2, 1, 1, 1})); },
              ThrowsMessage<ConfigError>("[PartitionSpec] P('fsdp', ('tp','pp')) names the axis \"pp\", which the mesh "
                                         "(dp=1 fsdp=2 ep=1 tp=1 sp=1) does not have."));
}

TEST(WeightSharding, RefusesMoreDimensionsThanTheTensorHas) {
  EXPECT_THAT([] { planned({6}, {"fsdp", "tp"}, mesh_of({1, 2, 1, 1, 1})); },
              ThrowsMessage<ConfigError>("[PartitionSpec] P('fsdp', 'tp') has 2 dimensions, but the tensor has 1."));
}

TEST(WeightSharding, ReturnsAViewOfContiguousRows) {
  const at::Tensor whole = at::arange(60).view({6, 10});
  const at::Tensor rows = planned({6, 10}, {"fsdp"}, mesh_of({1, 2, 1, 1, 1}), 1).part_of(whole);
  EXPECT_EQ(rows.data_ptr<int64_t>(), whole.data_ptr<int64_t>() + 30);
  EXPECT_TRUE(rows.is_contiguous());
}

TEST(Boxes, AreTakenAndPut) {
  const at::Tensor whole = at::arange(30).view({5, 6});
  const Slices places{{{0, 1}, {3, 5}}, {{1, 2}, {4, 6}}};
  const at::Tensor taken = take(whole, places);
  EXPECT_TRUE(at::equal(taken, whole.index_select(0, at::tensor({0, 3, 4})).index_select(1, at::tensor({1, 4, 5}))));
  const at::Tensor back = at::zeros_like(whole);
  put(back, places, taken);
  EXPECT_EQ(back.sum().item<int64_t>(), taken.sum().item<int64_t>());
  EXPECT_TRUE(at::equal(take(back, places), taken));
  EXPECT_THAT(take(whole, {{}, {{0, 6}}}).sizes(), ElementsAre(0, 6));
  EXPECT_THAT(shape_of(places), ElementsAre(3, 3));
}

// A weight of any kind on any mesh, by any spec.
struct Problem {
  std::vector<Dim> dims;
  PartitionSpec spec;
  Mesh mesh;
};

Problem draw_problem(uint64_t seed) {
  Draw draw(seed);
  const int64_t kv = draw.between(1, 4);
  const HeadCounts heads{kv * draw.between(1, 3), kv};
  Problem p;
  switch (draw.between(0, 6)) {
    case 0: p.dims = {draw.between(1, 9), draw.between(1, 9)}; break;
    case 1: p.dims = {Dim::query_heads(heads, 2), draw.between(1, 5)}; break;
    case 2: p.dims = {Dim::kv_heads(heads, 2), draw.between(1, 5)}; break;
    case 3: p.dims = {draw.between(1, 5), Dim::fused_heads(heads, 2)}; break;
    case 4: p.dims = {Dim::halves(draw.between(1, 5), kInner), draw.between(1, 5)}; break;
    case 5: p.dims = {Dim(draw.between(1, 5), LogicalAxis::Expert), Dim::halves(draw.between(1, 3), kInner), 3}; break;
    default: p.dims = {Dim(draw.between(1, 9), LogicalAxis::Vocab)}; break;
  }
  std::vector<int64_t> dims(5, 1), dcn(5, 1);
  for (int i = static_cast<int>(draw.between(1, 3)); i > 0; --i)
    (draw.chance(0.25) ? dcn : dims)[static_cast<std::size_t>(draw.between(0, 4))] *= 2;
  p.mesh = mesh_of(dims, dcn);
  AxisNames axes{"dp", "fsdp", "ep", "tp", "sp"};
  std::vector<SpecDim> spec;
  for (std::size_t d = 0; d < p.dims.size(); ++d) {
    AxisNames chosen;
    while (!axes.empty() && draw.chance(0.5)) {
      const int64_t index = draw.between(0, static_cast<int64_t>(axes.size()) - 1);
      chosen.push_back(axes[static_cast<std::size_t>(index)]);
      axes.erase(axes.begin() + index);
    }
    spec.emplace_back(chosen);
  }
  p.spec = PartitionSpec(spec);
  return p;
}

std::string text_of(const Problem& p, uint64_t seed) {
  return concat("seed ", seed, ": ", at::IntArrayRef(shape_of_dims(p.dims)), " ", p.spec, " on ", p.mesh.to_string());
}

TEST(WeightSharding, CoversTheWeightByAnySpecOnAnyMesh) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Problem p = draw_problem(seed);
    const std::vector<int64_t> shape = shape_of_dims(p.dims);
    const at::Tensor held = at::zeros(shape, at::kLong);
    for (int64_t rank = 0; rank < p.mesh.size(); ++rank) {
      const Slices slices = planned(p.dims, p.spec, p.mesh).stored(rank);
      put(held, slices, take(held, slices) + 1);
    }
    EXPECT_GE(held.min().item<int64_t>(), 1) << text_of(p, seed);  // nothing is lost
  }
}

TEST(WeightSharding, RoundTripsByAnySpecOnAnyMesh) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Problem p = draw_problem(seed);
    const std::vector<int64_t> shape = shape_of_dims(p.dims);
    const at::Tensor whole = at::arange(c10::multiply_integers(shape), at::kDouble).view(shape);
    run_ranks(p.mesh.size(), [&](World&) {
      const WeightSharding sharding(p.dims, p.spec, parallel_on(p.mesh, World::current()));
      const at::Tensor part = sharding.part_of(whole).contiguous();
      EXPECT_EQ(part.sizes(), at::IntArrayRef(sharding.stored_shape())) << text_of(p, seed);
      EXPECT_TRUE(at::equal(sharding.gather_whole(part), whole)) << text_of(p, seed);
      EXPECT_TRUE(at::equal(sharding.gather(part, at::kDouble), take(whole, sharding.computed()))) << text_of(p, seed);
    });
  }
}

// Ranks with different tokens, or different parts, each have a term of the gradient; the others repeat it.
TEST(WeightSharding, SumsGradientsOverDifferentTokensAndKeepsItsPart) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Problem p = draw_problem(seed);
    const std::vector<int64_t> shape = shape_of_dims(p.dims);
    const auto gradient_of = [&](const WeightSharding& sharding, int64_t rank) {
      double term = 1;
      for (const std::string& axis : sharding.parallel().data())
        term = term * 10 + static_cast<double>(p.mesh.coordinate(axis, rank));
      for (const Dim& dim : p.dims) {
        for (const std::string& axis : sharding.parallel().axes(dim.axis))
          term = term * 10 + static_cast<double>(p.mesh.coordinate(axis, rank));
      }
      const std::vector<int64_t> sizes = shape_of(sharding.computed());
      return std::pair(term, at::arange(c10::multiply_integers(sizes), at::kDouble).view(sizes) + 1000 * term);
    };
    at::Tensor sum = at::zeros(shape, at::kDouble);
    std::set<double> seen;
    for (int64_t rank = 0; rank < p.mesh.size(); ++rank) {
      const WeightSharding sharding = planned(p.dims, p.spec, p.mesh, rank);
      const auto [term, gradient] = gradient_of(sharding, rank);
      if (!seen.insert(term).second) continue;
      put(sum, sharding.computed(), take(sum, sharding.computed()) + gradient);
    }
    run_ranks(p.mesh.size(), [&](World& world) {
      const WeightSharding sharding(p.dims, p.spec, parallel_on(p.mesh, World::current()));
      const at::Tensor given = gradient_of(sharding, world.rank()).second;
      const at::Tensor kept = given.clone();
      EXPECT_TRUE(at::equal(sharding.reduce(given), sharding.part_of(sum))) << text_of(p, seed);
      EXPECT_TRUE(at::equal(given, kept)) << text_of(p, seed);  // the input is unchanged
    });
  }
}

}  // namespace
}  // namespace easydel
