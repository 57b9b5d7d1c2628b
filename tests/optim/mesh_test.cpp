// Ranks that store parts of the parameters take the steps of one device.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "easydel/core/error.h"
#include "easydel/optim/optimizers.h"
#include "easydel/optim/own_layout.h"
#include "easydel/optim/rules/transforms.h"
#include "easydel/optim/tree.h"
#include "easydel/optim/wrappers.h"
#include "easydel/sharding/weight_sharding.h"
#include "tests/support/draw.h"

namespace easydel::optim {
namespace {

using testing_support::Draw;

// Parameters of every kind, each with its own spec, on a mesh of two to eight ranks.
struct Problem {
  std::vector<std::pair<std::string, std::vector<Dim>>> params;
  std::map<std::string, PartitionSpec> specs;  // absent: no sharding at all
  Mesh mesh;
  uint64_t seed = 0;

  std::string text() const {
    std::string out = concat("seed ", seed, " on ", mesh.to_string());
    for (const auto& [path, spec] : specs) out += concat(", ", path, " ", spec);
    return out;
  }
};

PartitionSpec draw_spec(Draw& draw, std::size_t dims) {
  AxisNames axes{"dp", "fsdp", "ep", "tp", "sp"};
  std::vector<SpecDim> spec;
  for (std::size_t d = 0; d < dims; ++d) {
    AxisNames chosen;
    while (!axes.empty() && draw.chance(0.6)) {
      const int64_t index = draw.between(0, static_cast<int64_t>(axes.size()) - 1);
      chosen.push_back(axes[static_cast<std::size_t>(index)]);
      axes.erase(axes.begin() + index);
    }
    spec.emplace_back(chosen);
  }
  return PartitionSpec(spec);
}

Problem draw_problem(uint64_t seed) {
  Draw draw(seed);
  const int64_t kv = draw.between(1, 4);
  const HeadCounts heads{kv * draw.between(1, 3), kv};
  constexpr LogicalAxis kInner = LogicalAxis::MlpIntermediate;
  Problem p{.seed = seed};
  p.params = {{"embed", {Dim(draw.between(3, 9), LogicalAxis::Vocab), draw.between(2, 6)}},
              {"q", {Dim::query_heads(heads, 2), draw.between(2, 5)}},
              {"k", {Dim::kv_heads(heads, 2), draw.between(2, 5)}},
              {"qkv", {draw.between(2, 5), Dim::fused_heads(heads, 2)}},
              {"gate_up", {Dim::halves(draw.between(2, 5), kInner), draw.between(2, 7)}},
              {"experts", {Dim(draw.between(1, 5), LogicalAxis::Expert), Dim::halves(draw.between(1, 3), kInner), 3}},
              {"norm", {draw.between(1, 7)}},
              {"scale", {}},
              {"loose", {3, 4}}};
  std::vector<int64_t> dims(5, 1);
  for (int i = static_cast<int>(draw.between(1, 3)); i > 0; --i)
    dims[static_cast<std::size_t>(draw.between(0, 4))] *= 2;
  int64_t devices = 1;
  for (const int64_t dim : dims) devices *= dim;
  p.mesh = create_mesh({.axis_dims = dims, .device_count = devices});
  for (const auto& [path, shape] : p.params) {
    if (path != "loose" && path != "scale") p.specs[path] = draw_spec(draw, shape.size());
  }
  return p;
}

std::vector<int64_t> shape_of_dims(const std::vector<Dim>& dims) {
  std::vector<int64_t> shape;
  for (const Dim& dim : dims) shape.push_back(dim.size);
  return shape;
}

// The same on every rank.
TensorMap draw_tree(const Problem& p, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  TensorMap tree;
  for (const auto& [path, dims] : p.params) tree.set(path, at::randn(shape_of_dims(dims), generator, at::kDouble));
  return tree;
}

Placement placement_of(const Problem& p) {
  Placement placement;
  placement.parallel = std::make_shared<Parallel>(std::make_shared<DeviceMesh>(p.mesh, World::current()),
                                                  PartitionAxis(), AxisNames{"ep"});
  for (const auto& [path, dims] : p.params) {
    const auto spec = p.specs.find(path);
    if (spec == p.specs.end()) continue;
    placement.shardings[path] = std::make_shared<WeightSharding>(dims, spec->second, placement.parallel);
  }
  return placement;
}

TensorMap part_of(const TensorMap& whole, const Placement& placement) {
  TensorMap part;
  for (const auto& [path, tensor] : whole) {
    const auto sharding = placement.shardings.find(path);
    part.set(path, sharding == placement.shardings.end() ? tensor.clone() : sharding->second->part_of(tensor).clone());
  }
  return part;
}

at::Tensor whole_of(const OptState::Leaf& leaf) {
  return leaf.sharding ? leaf.sharding->gather_whole(leaf.value) : leaf.value;
}

testing::AssertionResult is_near(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return testing::AssertionFailure() << a.sizes() << " is not " << b.sizes();
  if (a.numel() == 0) return testing::AssertionSuccess();
  const double difference = (a - b).abs().max().item<double>(), size = std::max(1.0, b.abs().max().item<double>());
  if (difference <= 1e-12 * size) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "differs by " << difference;
}

uint64_t draws() {
  const char* given = std::getenv("EASYDEL_DRAWS");
  return given ? static_cast<uint64_t>(std::atoll(given)) : 24;
}

class OptimOnMesh : public testing::TestWithParam<std::pair<const char*, GradientTransformation>> {};

constexpr int kSteps = 5;
const AdafactorOptions kFactored{.learning_rate = 1e-2,
                                 .min_dim_size_to_factor = 2,
                                 .momentum = 0.9,
                                 .dtype_momentum = at::kDouble,
                                 .weight_decay_rate = 1e-3};
INSTANTIATE_TEST_SUITE_P(
    Optimizers, OptimOnMesh,
    testing::Values(
        std::pair("clip", chain({clip_by_global_norm(0.7), sgd(0.1)})),
        std::pair("adamw", chain({clip_by_global_norm(1.0), adamw({.learning_rate = 1e-2, .weight_decay = 0.1})})),
        std::pair("adamw_8bit", adamw_8bit({.learning_rate = 1e-2, .weight_decay = 0.1, .min_8bit_size = 5})),
        std::pair("adafactor", adafactor(kFactored)), std::pair("muon", muon(1e-2)),
        std::pair("muon_adaptive", muon({.learning_rate = 1e-2, .adaptive = true, .consistent_rms = 0.2})),
        std::pair("multi_steps", MultiSteps(chain({clip_by_global_norm(1.0), lion(1e-2)}), 2))),
    [](const auto& info) { return std::string(info.param.first); });

TEST_P(OptimOnMesh, StepsAsOnOneDevice) {
  const GradientTransformation tx = GetParam().second;
  for (uint64_t seed = 1; seed <= draws(); ++seed) {
    const Problem p = draw_problem(seed);
    SCOPED_TRACE(p.text());
    TensorMap params = draw_tree(p, 1000 * seed);
    OptState state = tx->init(params);
    for (uint64_t step = 1; step <= kSteps; ++step) {
      TensorMap gradients = draw_tree(p, 1000 * seed + step);
      tx->apply(params, gradients, state);
    }
    run_ranks(p.mesh.size(), [&](World&) {
      SCOPED_TRACE(p.text());
      const Placement placement = placement_of(p);
      TensorMap part = part_of(draw_tree(p, 1000 * seed), placement);
      OptState mine = tx->init(part, placement);
      for (uint64_t step = 1; step <= kSteps; ++step) {
        TensorMap gradients = part_of(draw_tree(p, 1000 * seed + step), placement);
        tx->apply(part, gradients, mine, placement);
      }
      const TensorMap expected = part_of(params, placement);
      for (const auto& [path, tensor] : expected) EXPECT_TRUE(is_near(part.at(path), tensor)) << path;
      const auto ours = std::as_const(mine).leaves(), theirs = std::as_const(state).leaves();
      ASSERT_EQ(ours.size(), theirs.size());
      for (std::size_t i = 0; i < ours.size(); ++i) {
        ASSERT_EQ(ours[i].name, theirs[i].name);
        EXPECT_TRUE(is_near(whole_of(*ours[i].leaf), theirs[i].leaf->value)) << ours[i].name;
      }
      EXPECT_EQ(mine.to_json(), state.to_json());
    });
  }
}

// The state's layout is drawn separately from the parameters'; for some parameters each leaf has its own.
TEST_P(OptimOnMesh, StepsAsOnOneDeviceWithASeparatelyShardedState) {
  const GradientTransformation tx = GetParam().second;
  int64_t apart = 0;
  for (uint64_t seed = 1; seed <= draws(); ++seed) {
    const Problem p = draw_problem(seed);
    TensorMap params = draw_tree(p, 1000 * seed);
    OptState state = tx->init(params);
    for (uint64_t step = 1; step <= kSteps; ++step) {
      TensorMap gradients = draw_tree(p, 1000 * seed + step);
      tx->apply(params, gradients, state);
    }
    run_ranks(p.mesh.size(), [&](World& world) {
      SCOPED_TRACE(p.text());
      Draw draw(seed + 77);
      const Placement placement = placement_of(p);
      Placement wanted = placement;
      std::map<std::string, std::vector<Dim>> dims(p.params.begin(), p.params.end());
      const auto draw_sharding = [&](const std::string& path) {
        return std::make_shared<WeightSharding>(dims.at(path), draw_spec(draw, dims.at(path).size()),
                                                placement.parallel);
      };
      for (const auto& [path, shape] : p.params) {
        if (draw.chance(0.8)) wanted.shardings[path] = draw_sharding(path);
      }
      TensorMap part = part_of(draw_tree(p, 1000 * seed), placement);
      OptState mine = init_in(*tx, part, placement, wanted);
      for_leaves(mine, [&](const std::string& path, OptState::Leaf& leaf) {
        const bool same = dims.contains(path) && whole_of(leaf).sizes() == shape_of_dims(dims.at(path));
        if (!same || !draw.chance(0.3)) return;
        const auto other = draw_sharding(path);
        leaf = {relayout(leaf.value, leaf.sharding, other).clone(at::MemoryFormat::Contiguous), other};
      });
      const auto where = [&] {
        std::vector<const WeightSharding*> all;
        for (const auto& [name, leaf] : std::as_const(mine).leaves()) all.push_back(leaf->sharding.get());
        return all;
      };
      const auto before = where();
      for (uint64_t step = 1; step <= kSteps; ++step) {
        TensorMap gradients = part_of(draw_tree(p, 1000 * seed + step), placement);
        apply_in_own_layout(*tx, part, gradients, mine, placement);
      }
      EXPECT_EQ(where(), before);
      const TensorMap expected = part_of(params, placement);
      for (const auto& [path, tensor] : expected) EXPECT_TRUE(is_near(part.at(path), tensor)) << path;
      const auto ours = std::as_const(mine).leaves(), theirs = std::as_const(state).leaves();
      ASSERT_EQ(ours.size(), theirs.size());
      for (std::size_t i = 0; i < ours.size(); ++i) {
        EXPECT_TRUE(is_near(whole_of(*ours[i].leaf), theirs[i].leaf->value)) << ours[i].name;
      }
      EXPECT_EQ(mine.to_json(), state.to_json());
      if (world.rank() == 0) {
        for_leaves(mine, [&](const std::string& path, const OptState::Leaf& leaf) {
          apart += !same_layout(leaf.sharding, sharding_of(placement, path));
        });
      }
    });
  }
  EXPECT_EQ(apart > 0, std::string(GetParam().first) != "clip");  // which keeps one number
}

TEST(GlobalNorm, CountsEveryElementOnce) {
  int64_t repeated = 0;
  for (uint64_t seed = 1; seed <= 4 * draws(); ++seed) {
    const Problem p = draw_problem(seed);
    const TensorMap tree = draw_tree(p, seed);
    double sum = 0, stored = 0;
    for (const auto& [path, tensor] : tree) sum += tensor.square().sum().item<double>();
    const double expected = std::sqrt(sum);
    EXPECT_NEAR(global_norm(tree).item<double>(), expected, 1e-12 * expected);
    std::vector<int64_t> counts(static_cast<std::size_t>(p.mesh.size()));
    run_ranks(p.mesh.size(), [&](World& world) {
      const Placement placement = placement_of(p);
      const TensorMap part = part_of(tree, placement);
      counts[static_cast<std::size_t>(world.rank())] = part.numel();
      EXPECT_NEAR(global_norm(part, placement).item<double>(), expected, 1e-12 * expected) << p.text();
    });
    for (const int64_t count : counts) stored += static_cast<double>(count);
    repeated += stored > static_cast<double>(tree.numel());
  }
  EXPECT_GT(repeated, 0);
}

TEST(OptimOnMeshState, KeepsFactorsByTheSpecWithoutTheSummedDimension) {
  const Mesh mesh = create_mesh({.axis_dims = {1, 2, 1, 2, 1}, .device_count = 4});
  run_ranks(4, [&](World&) {
    Placement placement;
    placement.parallel = std::make_shared<Parallel>(std::make_shared<DeviceMesh>(mesh, World::current()),
                                                    PartitionAxis(), AxisNames{"ep"});
    placement.shardings["w"] =
        std::make_shared<WeightSharding>(std::vector<Dim>{8, 12}, PartitionSpec{"fsdp", "tp"}, placement.parallel);
    const TensorMap params{{"w", at::zeros({4, 6})}};
    const OptState state = adafactor({.min_dim_size_to_factor = 2})->init(params, placement);
    const OptState& factors = state.children[0];
    const auto& row = factors.trees.at("v_row").at("w");
    const auto& col = factors.trees.at("v_col").at("w");
    EXPECT_EQ(row.value.sizes(), at::IntArrayRef({4}));
    EXPECT_EQ(row.sharding->spec(), PartitionSpec{"fsdp"});
    EXPECT_EQ(col.value.sizes(), at::IntArrayRef({6}));
    EXPECT_EQ(col.sharding->spec(), PartitionSpec{"tp"});
  });
}

}  // namespace
}  // namespace easydel::optim
