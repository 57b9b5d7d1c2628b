// ZeRO: the optimizer's state, gradients and parameters split over the ranks that share the data. The steps are those
// of one device; what is held and sent is what the formulas say.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>

#include "easydel/core/error.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/infra/state/state.h"
#include "easydel/optim/optimizers.h"
#include "easydel/optim/rules/transforms.h"
#include "easydel/sharding/world/world.h"
#include "tests/support/one_answer.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;
using testing_support::Draw;
using testing_support::Problem;

// Large enough an eps that a gradient which is rounding alone does not become a step.
optim::GradientTransformation optimizer() {
  return optim::chain(
      {optim::clip_by_global_norm(1.0), optim::adamw({.learning_rate = 1e-2, .eps = 1e-4, .weight_decay = 0.1})});
}

State step(State state, const ModelInputs& inputs) {
  GraphState grads = value_and_grad(state, [&](const BaseModule& model) { return model(inputs).loss; }).second;
  return std::move(state).apply_gradients(std::move(grads));
}

State steps(State state, const ModelInputs& inputs, int count) {
  for (int i = 0; i < count; ++i) state = step(std::move(state), inputs);
  return state;
}

std::string differences(const State& got, const State& expected) {
  std::string wrong;
  const auto compare = [&](const std::string& name, const at::Tensor& a, const at::Tensor& b) {
    const double scale = std::max(b.abs().max().item<double>(), 1e-6);
    const double error = a.numel() == 0 ? 0 : (a - b).abs().max().item<double>() / scale;
    if (!(error < 1e-9)) wrong += concat("\n  ", name, ": off by ", error);
  };
  for (const auto& [path, tensor] : expected.graphstate) compare(path, got.graphstate.at(path), tensor);
  const auto ours = got.opt_state->leaves(), theirs = expected.opt_state->leaves();
  for (std::size_t i = 0; i < theirs.size(); ++i) compare(theirs[i].name, ours[i].leaf->value, theirs[i].leaf->value);
  return wrong;
}

// Rules for mu before those for everything else.
PartitionRules draw_optimizer_rules(Draw& draw, const BaseModule& module) {
  const PartitionRules first = testing_support::draw_rules(draw, module);
  const PartitionRules others = testing_support::draw_rules(draw, module);
  std::vector<PartitionRule> rules;
  for (PartitionRule rule : first.rules()) {
    rule.pattern.insert(1, "mu/");
    if (draw.chance(0.3)) rules.push_back(std::move(rule));
  }
  rules.insert(rules.end(), others.rules().begin(), others.rules().end());
  return PartitionRules(std::move(rules));
}

class Zero : public testing::TestWithParam<uint64_t> {};

TEST_P(Zero, StepsAsOneDeviceOnAnyMeshWithTheOptimizerOnAnyRules) {
  const char* given = std::getenv("EASYDEL_DRAWS");
  const uint64_t draws = given ? std::strtoull(given, nullptr, 10) : 64;
  for (uint64_t seed = 1 + GetParam(); seed <= draws && !HasFailure(); seed += 4) {
    const Problem problem = testing_support::draw_problem(seed);
    const State expected = steps(testing_support::make_model(problem)->to_state(optimizer()), problem.inputs, 3);
    std::mutex mutex;
    std::string wrong;
    run_ranks(problem.mesh.size(), [&](World& world) {
      Draw draw(seed + 5);
      const auto model = testing_support::make_model(problem);
      const auto rules = draw.chance(0.7) ? std::optional(draw_optimizer_rules(draw, *model)) : std::nullopt;
      model->shard_model(problem.rules, problem.mesh);
      const State state = model->to_state().init_tx(optimizer(), rules);
      const std::string found = differences(steps(state, problem.inputs, 3).gather_state(), expected);
      const std::lock_guard lock(mutex);
      if (!found.empty()) wrong += concat("\nrank ", world.rank(), ":", found);
    });
    EXPECT_TRUE(wrong.empty()) << problem.to_string() << wrong;
  }
}

INSTANTIATE_TEST_SUITE_P(Draws, Zero, testing::Range<uint64_t>(0, 4));

// Sizes that divide by the meshes below.
constexpr int64_t kHidden = 16, kInner = 24, kVocab = 32, kLayers = 2, kKv = 8;
constexpr int64_t kParameters = kLayers * (2 * kHidden * kHidden + 2 * kKv * kHidden + 3 * kHidden * kInner) +
                                2 * kVocab * kHidden + (2 * kLayers + 1) * kHidden;
constexpr int64_t kBytes = 8 * kParameters;  // in float64

std::unique_ptr<BaseConfig> llama(std::vector<int64_t> mesh, std::optional<int64_t> stage) {
  Json dict = Json::object({{"model_type", "llama"},
                            {"vocab_size", kVocab},
                            {"hidden_size", kHidden},
                            {"intermediate_size", kInner},
                            {"num_hidden_layers", kLayers},
                            {"num_attention_heads", 4},
                            {"num_key_value_heads", 2},
                            {"max_position_embeddings", 16},
                            {"sharding_axis_dims", std::move(mesh)}});
  if (stage) dict["zero_stage"] = *stage;
  return AutoConfig::from_dict(dict);
}

std::shared_ptr<BaseModule> make(const BaseConfig& config) {
  std::shared_ptr<BaseModule> model = Registry::instance().make_module(config, TaskType::CausalLM);
  place_parameters(*model, {}, World::current());
  model->initialize({.dtype = float64, .param_dtype = float64});
  return model;
}

ModelInputs batch() {
  const at::Tensor ids = at::arange(32, at::kLong).remainder(kVocab - 1).view({4, 8});
  return {.input_ids = ids, .labels = ids};
}

struct Held {
  int64_t parameters = 0, gradients = 0, moments = 0;
  std::map<std::pair<std::string, std::string>, int64_t> sent = {};  // in a step
};

// Of rank 0, in a step after the first.
Held measure(std::vector<int64_t> mesh, std::optional<int64_t> stage) {
  Held held;
  const int64_t ranks = c10::multiply_integers(mesh);
  run_ranks(ranks, [&](World& world) {
    State state = make(*llama(mesh, stage))->to_state(optim::adamw(1e-2));
    state = step(std::move(state), batch());
    world.stats().reset();
    GraphState grads = value_and_grad(state, [&](const BaseModule& model) { return model(batch()).loss; }).second;
    const int64_t gradients = grads.nbytes();
    state = std::move(state).apply_gradients(std::move(grads));
    if (world.rank() != 0) return;
    held = {.parameters = state.graphstate.nbytes(), .gradients = gradients, .moments = state.opt_state->nbytes()};
    for (const auto& [key, entry] : world.stats().entries) held.sent[key] = entry.bytes;
  });
  return held;
}

using Sent = std::map<std::pair<std::string, std::string>, int64_t>;
constexpr int64_t kLossNumbers = 5;
int64_t all_reduce(int64_t ranks, int64_t bytes) { return 2 * (ranks - 1) * bytes / ranks; }

TEST(ZeroStage, OneSplitsTheOptimizerAndGathersTheParametersOnce) {
  const int64_t n = 4;
  for (const auto& [mesh, axes] : {std::pair(std::vector<int64_t>{n, 1, 1, 1, 1}, "dp"),
                                   {{1, n, 1, 1, 1}, "fsdp"},
                                   {{2, 2, 1, 1, 1}, "dp+fsdp"}}) {
    const Held held = measure(mesh, 1);
    EXPECT_EQ(held.parameters, kBytes) << axes;
    EXPECT_EQ(held.gradients, kBytes) << axes;
    EXPECT_EQ(held.moments, 2 * kBytes / n) << axes;
    EXPECT_EQ(held.sent, (Sent{{{axes, "all_reduce"}, all_reduce(n, kBytes) + kLossNumbers * all_reduce(n, 8)},
                               {{axes, "all_gather"}, (n - 1) * kBytes / n}}));
  }
}

TEST(ZeroStage, TwoSplitsGradientsTooAndSendsATermLess) {
  const int64_t n = 4;
  for (const auto& [mesh, axes] : {std::pair(std::vector<int64_t>{n, 1, 1, 1, 1}, "dp"),
                                   {{1, n, 1, 1, 1}, "fsdp"},
                                   {{2, 2, 1, 1, 1}, "dp+fsdp"}}) {
    const Held held = measure(mesh, 2);
    EXPECT_EQ(held.gradients, kBytes / n) << axes;
    EXPECT_EQ(held.moments, 2 * kBytes / n) << axes;
    EXPECT_EQ(held.sent, (Sent{{{axes, "all_reduce"}, kLossNumbers * all_reduce(n, 8)},
                               {{axes, "reduce_scatter"}, (n - 1) * kBytes / n},
                               {{axes, "all_gather"}, (n - 1) * kBytes / n}}));
  }
}

TEST(ZeroStage, ThreeIsTheRulesOfTheConfig) {
  const Held three = measure({1, 4, 1, 1, 1}, 3), rules = measure({1, 4, 1, 1, 1}, std::nullopt);
  EXPECT_EQ(three.parameters, rules.parameters);
  EXPECT_EQ(three.moments, rules.moments);
  EXPECT_EQ(three.sent, rules.sent);
  EXPECT_LT(three.parameters, kBytes / 3);
}

TEST(ZeroStage, OneBesideTensorParallelSplitsWhatARankHas) {
  const Held held = measure({2, 1, 1, 2, 1}, 1);
  const int64_t norms = 8 * (2 * kLayers + 1) * kHidden;  // whole over tp
  EXPECT_EQ(held.parameters, (kBytes - norms) / 2 + norms);
  EXPECT_EQ(held.moments, held.parameters);  // two, over two
  EXPECT_EQ(held.sent.at({"dp", "all_gather"}), held.parameters / 2);
  EXPECT_FALSE(held.sent.contains({"tp", "all_gather"}));
}

TEST(ZeroStage, TwoKeepsGatheredWeightsUntilTheyChange) {
  const State expected = steps(make(*llama({1, 1, 1, 1, 1}, {}))->to_state(optimizer()), batch(), 4);
  for (const int64_t stage : {1, 2, 3}) {
    run_ranks(4, [&](World& world) {
      State state = make(*llama({2, 2, 1, 1, 1}, stage))->to_state(optimizer());
      for (int i = 0; i < 4; ++i) {
        state = step(std::move(state), batch());
        // Twice without a step between: nothing is gathered again.
        world.stats().reset();
        (*state.model())(batch());
        const int64_t first = world.stats().entries[{"dp+fsdp", "all_gather"}].bytes;
        world.stats().reset();
        (*state.model())(batch());
        const int64_t second = world.stats().entries[{"dp+fsdp", "all_gather"}].bytes;
        EXPECT_EQ(first, stage == 2 ? 3 * kBytes / 4 : 0);
        EXPECT_EQ(second, 0);
      }
      EXPECT_EQ(differences(state.gather_state(), expected), "");
    });
  }
}

// A step needs memory for one parameter at a time, whatever the number of layers.
TEST(ZeroStage, OneStepsInPlace) {
  run_ranks(4, [](World&) {
    const auto config = llama({4, 1, 1, 1, 1}, 1);
    config->update(Json::object({{"hidden_size", 64}, {"intermediate_size", 128}, {"num_hidden_layers", 8}}));
    State state = make(*config)->to_state(optimizer());
    state = step(std::move(state), batch());
    GraphState grads = value_and_grad(state, [&](const BaseModule& model) { return model(batch()).loss; }).second;
    const void* memory = state.graphstate.at("lm_head.weight").data_ptr();
    const int64_t largest = 8 * 128 * 64;
    const int64_t peak = peak_bytes([&] { state = std::move(state).apply_gradients(std::move(grads)); });
    EXPECT_EQ(state.graphstate.at("lm_head.weight").data_ptr(), memory);
    EXPECT_LE(peak, 5 * largest / 2);
    EXPECT_GT(state.graphstate.nbytes(), 20 * largest);
  });
}

TEST(ZeroStage, CheckpointsLoadInAnyStageOnAnyMesh) {
  const TemporaryDirectory directory;
  const auto saved = directory / "saved";
  run_ranks(4, [&](World&) {
    steps(make(*llama({2, 2, 1, 1, 1}, 1))->to_state(optimizer()), batch(), 2).save_state(saved, {.verbose = false});
  });
  const auto load = [&](std::vector<int64_t> mesh, Json stage) {
    return State::load_state(saved,
                             {.dtype = float64,
                              .param_dtype = float64,
                              .sharding = {.axis_dims = mesh, .auto_shard_model = true},
                              .config_kwargs = Json::object({{"zero_stage", std::move(stage)}}),
                              .verbose = false},
                             optimizer());
  };
  const State expected = steps(load({1, 1, 1, 1, 1}, Json()), batch(), 2);
  EXPECT_EQ(expected.step, 4);
  EXPECT_EQ(differences(expected, steps(make(*llama({1, 1, 1, 1, 1}, {}))->to_state(optimizer()), batch(), 4)), "");
  for (const auto& [mesh, stage] : {std::pair(std::vector<int64_t>{1, 4, 1, 1, 1}, Json(3)),
                                    {{2, 1, 1, 2, 1}, Json(1)},
                                    {{4, 1, 1, 1, 1}, Json(2)},
                                    {{1, 2, 1, 1, 2}, Json()}}) {
    run_ranks(4, [&, mesh = mesh, stage = stage](World&) {
      const State state = load(mesh, stage);
      EXPECT_LE(state.opt_state->nbytes(), 2 * kBytes / 2 + 1024);
      EXPECT_EQ(differences(steps(state, batch(), 2).gather_state(), expected), "") << stage.dump();
    });
  }
}

TEST(ZeroStage, GoesOnBitForBit) {
  const TemporaryDirectory directory;
  for (const int64_t stage : {1, 2}) {
    const auto saved = directory / std::to_string(stage);
    run_ranks(3, [&](World&) {  // sizes that do not divide
      const State half = steps(make(*llama({3, 1, 1, 1, 1}, stage))->to_state(optimizer()), batch(), 2);
      half.save_state(saved, {.verbose = false});
      const State through = steps(half, batch(), 2);
      const LoadOptions options{
          .dtype = float64, .param_dtype = float64, .sharding = {.auto_shard_model = true}, .verbose = false};
      const State loaded = State::load_state(saved, options, optimizer());
      const State resumed = steps(loaded, batch(), 2);
      for (const auto& [path, tensor] : through.graphstate)
        EXPECT_TRUE(at::equal(tensor, resumed.graphstate.at(path))) << path;
      const auto a = through.opt_state->leaves(), b = resumed.opt_state->leaves();
      for (std::size_t i = 0; i < a.size(); ++i)
        EXPECT_TRUE(at::equal(a[i].leaf->value, b[i].leaf->value)) << a[i].name;
    });
  }
}

TEST(ZeroStage, RefusesWhatMakesNoSense) {
  EXPECT_THAT([] { llama({1, 1, 1, 1, 1}, 4); },
              ThrowsMessage<ConfigError>("[LlamaConfig] zero_stage must be 1, 2 or 3, or null for the partition rules "
                                         "alone; got 4."));
  run_ranks(2, [](World&) {
    EXPECT_THAT([] { make(*llama({2, 1, 1, 1, 1}, 3)); },
                ThrowsMessage<ConfigError>("[shard_model] zero_stage 3 splits parameters over fsdp and sp; got a mesh "
                                           "without them, dp=2 fsdp=1 ep=1 tp=1 sp=1. Give fsdp the devices of dp, or "
                                           "use zero_stage 1 or 2."));
  });
}

}  // namespace
}  // namespace easydel
