// AdamW with 8-bit moments against bitsandbytes, and its memory.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <iostream>

#include "easydel/io/safetensors/safetensors.h"
#include "easydel/optim/optimizers.h"
#include "easydel/optim/rules/blockwise.h"
#include "easydel/optim/tree.h"
#include "easydel/sharding/weight_sharding.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel::optim {
namespace {

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

TEST(Adamw8bit, EqualsBitsandbytes) {
  const TemporaryDirectory directory;
  const auto path = directory / "adamw.safetensors";
  run_python("adamw_8bit_peer.py", {path.string(), "5"});
  const auto file = SafetensorsFile::open(path);
  EXPECT_TRUE(at::equal(dynamic_code_book(true, at::kCPU), file->tensor("book")));
  EXPECT_TRUE(at::equal(dynamic_code_book(false, at::kCPU), file->tensor("unsigned_book")));
  const std::vector<std::string> paths{"rows.weight", "odd.weight", "flat", "bias"};
  const auto tx = adamw_8bit({.learning_rate = 3e-3, .b1 = 0.9, .b2 = 0.95, .eps = 1e-8, .weight_decay = 0.1});
  for (const std::string dtype : {"float32", "bfloat16"}) {
    for (const bool applies : {true, false}) {
      if (!applies && dtype == "bfloat16") continue;  // an update is rounded before it is added
      const auto tree = [&](const std::string& prefix) {
        TensorMap map;
        for (const std::string& p : paths) map.set(p, file->tensor(dtype + "/" + prefix + "/" + p).clone());
        return map;
      };
      TensorMap params = tree("params");
      OptState state = tx->init(params);
      double worst = 0;
      for (int step = 0; step < 25; ++step) {
        TensorMap gradients = tree("gradients/" + std::to_string(step));
        if (applies) {
          tx->apply(params, gradients, state);
        } else {
          tx->update(gradients, state, params);
          apply_updates(params, gradients);
        }
        for (const auto& [p, expected] : tree(std::to_string(step)))
          worst = std::max(worst, largest_difference(params.at(p), expected) / expected.abs().max().item<double>());
      }
      int64_t elements = 0, other_codes = 0;
      for (const std::string& p : paths) {
        for (const auto& [ours, theirs] : {std::pair("mu", "1"), std::pair("nu", "2")}) {
          const auto their = [&](const char* part) {
            return file->tensor(dtype + "/state/" + p + "/" + part + theirs);
          };
          const at::Tensor &mine = state.trees.at(ours).at(p).value, other = their("state");
          ASSERT_EQ(mine.scalar_type(), other.scalar_type()) << p;
          if (p == "bias") {
            EXPECT_LT(largest_difference(mine, other), 1e-7) << p;
            continue;
          }
          const at::Tensor& absmax = state.trees.at(std::string(ours) + "_absmax").at(p).value;
          EXPECT_LT(largest_difference(absmax, their("absmax")) / absmax.max().item<double>(), 1e-6) << p;
          elements += mine.numel();
          // The codes of a block of zeros say nothing.
          const at::Tensor scales = absmax.repeat_interleave(kBlockSize).narrow(0, 0, mine.numel()).view_as(mine);
          other_codes += mine.ne(other).logical_and(scales.ne(0)).sum().item<int64_t>();
        }
      }
      std::cout << dtype << (applies ? "" : ", updates") << ": parameters differ by " << worst << " of the largest, "
                << other_codes << " of " << elements << " codes\n";
      EXPECT_LE(worst, dtype == "float32" ? 1e-5 : 1.0 / 64);
      EXPECT_LE(other_codes, elements / 10000);
    }
  }
}

// What the composed operations of other devices make of the same numbers.
TEST(Adamw8bit, ComposedOperationsEqualTheLoops) {
  for (const bool is_signed : {true, false}) {
    at::Tensor values = at::randn({5 * kBlockSize + 77}).pow(3);
    values.slice(0, 256, 512).zero_();
    if (!is_signed) values = values.abs();
    const int64_t blocks = 6;
    const at::Tensor codes = at::empty(values.sizes(), at::kByte), absmax = at::empty({blocks});
    quantize_blocks(values, is_signed, codes, absmax);
    const at::Tensor scales = absmax.repeat_interleave(kBlockSize).narrow(0, 0, values.numel());
    EXPECT_TRUE(at::equal(quantize_scaled(values, scales, is_signed), codes));
    const at::Tensor back = dequantize_blocks(codes, absmax, is_signed);
    EXPECT_TRUE(at::equal(dequantize_scaled(codes, scales, is_signed), back));
    EXPECT_LT(((back - values).abs() / scales).nan_to_num(0).max().item<double>(), 0.01);
  }
}

TEST(Adamw8bit, NeedsAQuarterOfTheMemory) {
  const TensorMap params{{"weight", at::zeros({512, 1024})}, {"norm", at::zeros({1024})}};
  const int64_t wide = adamw(1e-3)->init(params).nbytes(), narrow = adamw_8bit(1e-3)->init(params).nbytes();
  std::cout << "moments of " << 513 * 1024 << " parameters: " << wide << " bytes, in 8 bits " << narrow << "\n";
  EXPECT_EQ(narrow, 2 * 512 * 1024 + 2 * 4 * (512 * 1024 / kBlockSize) + 2 * 4 * 1024);
  EXPECT_LT(static_cast<double>(narrow), 0.27 * static_cast<double>(wide));
}

// Next to a large gradient the second moments of the others are 0 in 8 bits, and their first ones are not.
TEST(Adamw8bit, TakesNoStepWithoutASecondMoment) {
  constexpr double kRate = 1e-3;
  const auto tx = adamw_8bit({.learning_rate = kRate, .weight_decay = 0});
  TensorMap params{{"weight", at::zeros({4096})}};
  OptState state = tx->init(params);
  at::manual_seed(3);
  const at::Tensor gradient = at::randn({4096});
  for (int64_t block = 0; block < 16; ++block) gradient[block * kBlockSize] = 1e5;
  for (int step = 0; step < 5; ++step) {
    TensorMap gradients{{"weight", step == 0 ? gradient.clone() : at::zeros({4096})}};
    tx->apply(params, gradients, state);
  }
  EXPECT_GT(params.at("weight").abs().max().item<double>(), kRate);
  EXPECT_LT(params.at("weight").abs().max().item<double>(), 5 * kRate);
}

// Parts that are whole blocks, parts that end inside of one, and parts of every row: all as on one device.
TEST(Adamw8bit, StepsOnAMeshAsOnOneDevice) {
  const auto tx = adamw_8bit({.learning_rate = 1e-2, .weight_decay = 0.1});
  const auto draw = [](int64_t seed) {
    at::manual_seed(static_cast<uint64_t>(seed));
    return TensorMap{{"rows", at::randn({64, 128})}, {"odd", at::randn({50, 101})}, {"columns", at::randn({24, 512})}};
  };
  TensorMap params = draw(0);
  OptState state = tx->init(params);
  std::vector<TensorMap> gradients;
  for (int64_t step = 1; step <= 4; ++step) {
    gradients.push_back(draw(step));
    TensorMap copy;
    for (const auto& [path, tensor] : gradients.back()) copy.set(path, tensor.clone());
    tx->apply(params, copy, state);
  }
  const TensorMap begin = draw(0);
  run_ranks(4, [&](World&) {
    Placement placement;
    placement.parallel = std::make_shared<Parallel>(
        std::make_shared<DeviceMesh>(create_mesh({.axis_dims = {1, 2, 1, 2, 1}, .device_count = 4}), World::current()),
        PartitionAxis(), AxisNames{"ep"});
    const auto shard = [&](const char* path, PartitionSpec spec) {
      const auto sizes = begin.at(path).sizes();
      placement.shardings[path] =
          std::make_shared<WeightSharding>(std::vector<Dim>{sizes[0], sizes[1]}, std::move(spec), placement.parallel);
    };
    shard("rows", PartitionSpec({AxisNames{"fsdp", "tp"}}));
    shard("odd", PartitionSpec({AxisNames{"fsdp"}}));
    shard("columns", PartitionSpec({AxisNames{"tp"}, AxisNames{"fsdp"}}));
    const auto part_of = [&](const TensorMap& whole) {
      TensorMap part;
      for (const auto& [path, tensor] : whole) part.set(path, placement.shardings.at(path)->part_of(tensor).clone());
      return part;
    };
    TensorMap part = part_of(begin);
    OptState mine = tx->init(part, placement);
    for (const TensorMap& whole : gradients) {
      TensorMap own = part_of(whole);
      tx->apply(part, own, mine, placement);
    }
    for (const auto& [path, expected] : part_of(params)) EXPECT_TRUE(at::equal(part.at(path), expected)) << path;
    const auto ours = std::as_const(mine).leaves(), theirs = std::as_const(state).leaves();
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const OptState::Leaf& leaf = *ours[i].leaf;
      const at::Tensor whole = leaf.sharding ? leaf.sharding->gather_whole(leaf.value) : leaf.value;
      EXPECT_TRUE(at::equal(whole, theirs[i].leaf->value)) << ours[i].name;
    }
  });
}

}  // namespace
}  // namespace easydel::optim
