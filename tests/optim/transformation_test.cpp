#include "easydel/optim/transformation.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "easydel/core/error.h"
#include "easydel/optim/offload.h"
#include "easydel/optim/optimizers.h"
#include "easydel/optim/params_ema.h"
#include "easydel/optim/rules/transforms.h"
#include "easydel/optim/wrappers.h"
#include "tests/support/tensors.h"

namespace easydel::optim {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TensorMap tree(at::ScalarType dtype = at::kFloat) {
  at::manual_seed(3);
  return {
      {"a.weight", at::randn({4, 5}).to(dtype)}, {"a.bias", at::randn({5}).to(dtype)}, {"s", at::randn({}).to(dtype)}};
}

TensorMap copy_of(const TensorMap& map) {
  TensorMap copy;
  for (const auto& [path, tensor] : map) copy.set(path, tensor.clone());
  return copy;
}

void expect_same(const TensorMap& a, const TensorMap& b) {
  ASSERT_EQ(a.paths(), b.paths());
  for (const auto& [path, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(path))) << path;
}

// The bytes that a step allocates beyond the parameters, gradients and moments.
int64_t bytes_of_a_step(int64_t rows) {
  TensorMap params{{"w", at::randn({rows, 1024})}, {"v", at::randn({rows, 512})}, {"b", at::randn({rows})}};
  for (const auto& [path, param] : params) param.requires_grad_();
  TensorMap gradients;
  for (const auto& [path, param] : params) gradients.set(path, at::randn_like(param.detach()));
  const auto tx = chain({clip_by_global_norm(1.0), adamw({.learning_rate = 1e-3, .mask = not_matching("^b$")})});
  OptState state = tx->init(params);
  tx->apply(params, gradients, state);
  return memory_use([&] { tx->apply(params, gradients, state); }).peak;
}

TEST(Apply, NeedsNoMemoryThatGrowsWithTheModel) {
  const int64_t small = bytes_of_a_step(1024), large = bytes_of_a_step(8192);
  EXPECT_GT(small, 0);
  EXPECT_EQ(large, small);
  EXPECT_LT(large, 2 << 20);  // of 50 MiB of parameters
}

// In parts of several parameters and of one; on a GPU too, where there is one.
TEST(Offload, StepsAreThoseOfTheSameOptimizer) {
  for (const at::Device device : {at::Device(at::kCPU), at::Device(at::kCUDA)}) {
    if (device.is_cuda() && !at::hasCUDA()) continue;
    for (const auto& inner :
         {adamw({.learning_rate = 1e-2, .mask = not_matching("bias")}), lion(1e-2), sgd(1e-2), adamw_8bit(1e-2)}) {
      for (const int64_t part : {int64_t{1}, int64_t{150}, kOffloadPart}) {
        const auto tx = offloaded(inner, part);
        TensorMap plain, moved;
        for (const auto& [path, param] : tree()) {
          plain.set(path, param.to(device));
          moved.set(path, param.to(device, param.scalar_type(), false, true));
        }
        OptState own = inner->init(plain), host = tx->init(moved);
        EXPECT_EQ(own.nbytes(), host.nbytes());
        for (int step = 0; step < 3; ++step) {
          TensorMap gradients, same;
          for (const auto& [path, param] : plain) {
            if (step == 1 && path == "s") continue;
            gradients.set(path, at::randn_like(param));
            same.set(path, gradients.at(path).clone());
          }
          inner->apply(plain, gradients, own);
          tx->apply(moved, same, host);
        }
        expect_same(plain, moved);
        EXPECT_EQ(own.to_json().dump(), host.to_json().dump());
        for (const auto& [name, leaf] : host.leaves()) {
          EXPECT_TRUE(leaf->value.is_cpu());
          EXPECT_EQ(leaf->value.is_pinned(), device.is_cuda());
        }
      }
    }
  }
  EXPECT_THAT([] { offloaded(chain({clip_by_global_norm(1.0), adamw(1e-2)}))->init(tree()); },
              ThrowsMessage<NotSupportedError>(testing::HasSubstr("is made of several transformations")));
}

TEST(Apply, LeavesParametersWithoutGradientsAlone) {
  TensorMap params = tree();
  params.set("steps", at::arange(3));
  const TensorMap before = copy_of(params);
  for (const auto& tx :
       {adamw(1e-2), adamw_8bit(1e-2), sgd(1e-2), lion(1e-2), rmsprop(1e-2), adafactor(1e-2), muon(1e-2)}) {
    OptState state = tx->init(params);
    TensorMap gradients{{"s", at::ones({})}};
    tx->apply(params, gradients, state);
    EXPECT_TRUE(at::equal(params.at("a.weight"), before.at("a.weight")));
    EXPECT_TRUE(at::equal(params.at("steps"), before.at("steps")));
    EXPECT_FALSE(at::equal(params.at("s"), before.at("s")));
  }
}

TEST(Apply, ComputesBfloat16InFloat32) {
  for (const bool fused : {true, false}) {
    TensorMap narrow = tree(at::kBFloat16), wide;
    for (const auto& [path, tensor] : narrow) wide.set(path, tensor.to(at::kFloat));
    const auto tx = adamw({.learning_rate = 1e-2, .weight_decay = 0.1});
    OptState narrow_state = tx->init(narrow), wide_state = tx->init(wide);
    for (const auto& named : narrow_state.leaves()) EXPECT_EQ(named.leaf->value.scalar_type(), at::kBFloat16);
    TensorMap narrow_gradients = copy_of(narrow), wide_gradients = copy_of(wide);
    if (fused) {
      tx->apply(narrow, narrow_gradients, narrow_state);
    } else {
      tx->update(narrow_gradients, narrow_state, narrow);
      apply_updates(narrow, narrow_gradients);
    }
    tx->apply(wide, wide_gradients, wide_state);
    for (const auto& [path, tensor] : wide) {
      EXPECT_TRUE(is_close(narrow.at(path), tensor, {.rtol = 1.0 / 128, .atol = 1e-4})) << path;
    }
    for (const auto& [path, leaf] : wide_state.trees.at("nu")) {
      EXPECT_TRUE(at::equal(narrow_state.trees.at("nu").at(path).value, leaf.value.to(at::kBFloat16))) << path;
    }
  }
}

TEST(Apply, KeepsMomentsInTheRequestedDtype) {
  TensorMap params = tree(at::kBFloat16);
  const auto tx = adamw({.learning_rate = 1e-2, .mu_dtype = at::kFloat});
  OptState state = tx->init(params);
  TensorMap gradients = copy_of(params);
  tx->apply(params, gradients, state);
  EXPECT_EQ(state.trees["mu"]["s"].value.scalar_type(), at::kFloat);
  EXPECT_EQ(state.trees["nu"]["s"].value.scalar_type(), at::kBFloat16);
  EXPECT_EQ(params.at("s").scalar_type(), at::kBFloat16);
}

// Large parameters are worked on in pieces, by several threads.
TEST(Apply, StepsOnALargeParameterAsOnItsRows) {
  const std::vector<GradientTransformation> all{adamw({.learning_rate = 1e-2, .weight_decay = 0.1}),
                                                adamw({.learning_rate = 1e-2, .nesterov = true}),
                                                adam(1e-2),
                                                sgd({.learning_rate = 1e-2, .momentum = 0.9, .nesterov = true}),
                                                lion(1e-2),
                                                rmsprop({.learning_rate = 1e-2, .centered = true, .momentum = 0.9})};
  const at::Tensor start = at::randn({150, 1001});
  for (const auto& tx : all) {
    TensorMap whole{{"w", start.clone()}}, rows;
    for (int64_t r = 0; r < start.size(0); ++r) rows.set(std::to_string(r), start[r].clone());
    OptState of_whole = tx->init(whole), of_rows = tx->init(rows);
    for (int step = 0; step < 3; ++step) {
      const at::Tensor gradient = at::randn({150, 1001});
      TensorMap for_whole{{"w", gradient.clone()}}, for_rows;
      for (int64_t r = 0; r < start.size(0); ++r) for_rows.set(std::to_string(r), gradient[r].clone());
      tx->apply(whole, for_whole, of_whole);
      tx->apply(rows, for_rows, of_rows);
    }
    EXPECT_FALSE(at::equal(whole.at("w"), start));
    for (int64_t r = 0; r < start.size(0); ++r) {
      EXPECT_TRUE(is_close(whole.at("w")[r], rows.at(std::to_string(r)), {.rtol = 1e-6, .atol = 1e-6})) << r;
    }
  }
}

TEST(Apply, AcceptsParametersInAnyMemoryOrder) {
  for (const auto& tx : {adamw(1e-2), adam(1e-2), sgd({.learning_rate = 1e-2, .momentum = 0.9})}) {
    const at::Tensor start = at::randn({6, 4}), gradient = at::randn({6, 4});
    TensorMap params{{"w", start.t().contiguous().t()}}, plain{{"w", start.clone()}};
    OptState state = tx->init(params), plain_state = tx->init(plain);
    for (int step = 0; step < 3; ++step) {
      TensorMap gradients{{"w", gradient.clone()}}, plain_gradients{{"w", gradient.clone()}};
      tx->apply(params, gradients, state);
      tx->apply(plain, plain_gradients, plain_state);
    }
    EXPECT_TRUE(is_close(params.at("w"), plain.at("w"), {.rtol = 1e-6, .atol = 1e-6}));
  }
}

TEST(ClipByGlobalNorm, RecordsTheNormBeforeClipping) {
  TensorMap params = tree();
  const auto tx = chain({identity(), clip_by_global_norm(0.1), sgd(1.0)});
  OptState state = tx->init(params);
  TensorMap gradients = copy_of(params);
  const double norm = global_norm(gradients).item<double>();
  tx->apply(params, gradients, state);
  EXPECT_GT(norm, 0.1);
  EXPECT_EQ(last_global_norm(state).item<double>(), norm);
  EXPECT_NEAR(global_norm(gradients).item<double>(), 0.1, 1e-7);
  EXPECT_FALSE(last_global_norm(adamw(1e-3)->init(params)).defined());
}

TEST(ClipToNorm, ScalesAllTreesAsOne) {
  TensorMap all = tree(), first = copy_of(all), second{{"s", first.at("s")}};
  first = {{"a.weight", first.at("a.weight")}, {"a.bias", first.at("a.bias")}};
  const double norm = global_norm(all).item<double>();
  const TensorMap before = copy_of(all);

  clip_to_norm({&first, &second}, norm, norm);
  expect_same({{"a.weight", first.at("a.weight")}, {"a.bias", first.at("a.bias")}, {"s", second.at("s")}}, before);

  OptState state = clip_by_global_norm(norm / 3)->init(before);
  clip_by_global_norm(norm / 3)->update(all, state, before);
  clip_to_norm({&first, &second}, norm, norm / 3);
  expect_same({{"a.weight", first.at("a.weight")}, {"a.bias", first.at("a.bias")}, {"s", second.at("s")}}, all);
}

TEST(GlobalNorm, IsPreciseForManyElements) {
  const at::Tensor x = at::full({3000000}, 0.1f);
  EXPECT_NEAR(global_norm({{"x", x}}).item<double>(), std::sqrt(3000000.0) * static_cast<double>(0.1f), 1e-4);
  EXPECT_NEAR(global_norm({{"x", x.to(at::kBFloat16)}}).item<double>(), std::sqrt(3000000.0) * 0.10009765625, 1e-4);
  EXPECT_EQ(global_norm({{"x", at::zeros({0})}}).item<double>(), 0);
}

TEST(MultiSteps, StepsEveryKthTime) {
  TensorMap params = tree();
  const TensorMap before = copy_of(params);
  const auto tx = MultiSteps(sgd(1.0), 3);
  OptState state = tx->init(params);
  for (int call = 1; call <= 3; ++call) {
    TensorMap gradients = copy_of(before);
    tx->apply(params, gradients, state);
    EXPECT_EQ(has_updated(state), call == 3);
    if (call < 3) expect_same(params, before);
  }
  for (const auto& [path, param] : params) EXPECT_LT(param.abs().max().item<float>(), 1e-6f);
}

TEST(InjectHyperparams, UsesTheValuesInTheState) {
  TensorMap params = tree();
  const TensorMap before = copy_of(params);
  const auto tx =
      inject_hyperparams([](const Hyperparams& h) { return sgd(h.at("learning_rate")); }, {{"learning_rate", 0.0}});
  OptState state = tx->init(params);
  TensorMap gradients = copy_of(before);
  tx->apply(params, gradients, state);
  expect_same(params, before);
  state.scalars["learning_rate"] = 0.5;
  gradients = copy_of(before);
  tx->apply(params, gradients, state);
  for (const auto& [path, param] : params) EXPECT_TRUE(is_close(param, before.at(path) * 0.5)) << path;
  state.scalars["learning_rate"] = kNan;
  EXPECT_THAT([&] { tx->apply(params, gradients, state); },
              ThrowsMessage<ConfigError>("[sgd] learning_rate must be finite and not negative; got nan."));
}

TEST(ApplyIfFinite, CountsSkippedSteps) {
  TensorMap params = tree();
  const TensorMap before = copy_of(params);
  const auto tx = apply_if_finite(sgd(0.1), 1);
  OptState state = tx->init(params);
  const auto step = [&](double spoiled) {
    TensorMap gradients = copy_of(before);
    if (std::isnan(spoiled)) gradients.at("a.bias")[2].fill_(spoiled);
    tx->apply(params, gradients, state);
  };
  step(kNan);
  expect_same(params, before);
  EXPECT_EQ(state.counts["notfinite_count"], 1);
  step(0);
  EXPECT_EQ(state.counts["notfinite_count"], 0);
  EXPECT_EQ(state.counts["total_notfinite"], 1);
  EXPECT_TRUE(params.at("a.bias").isfinite().all().item<bool>());
}

TEST(ParamsEma, AveragesTheWeights) {
  TensorMap params{{"w", at::full({2}, 4.0f)}, {"steps", at::arange(2)}};
  ParamsEma average(0.75);
  average.init(params);
  params.at("w").fill_(8);
  EXPECT_EQ(average.params().at("w")[0].item<float>(), 4);  // separate memory
  average.update(params);
  EXPECT_EQ(average.params().at("w")[0].item<float>(), 5);
  average.update(params);
  EXPECT_EQ(average.params().at("w")[0].item<float>(), 5.75);
  EXPECT_TRUE(at::equal(average.params().at("steps"), params.at("steps")));
  EXPECT_THAT([&] { average.update({{"w", at::zeros({3})}}); },
              ThrowsMessage<ConfigError>("[ParamsEma] \"w\" is averaged as [2]; got one of [3]."));
  EXPECT_THAT([] { ParamsEma(1.5); }, ThrowsMessage<ConfigError>("[ParamsEma] decay must be in [0, 1); got 1.5."));
}

TEST(OptState, NamesItsLeaves) {
  const auto tx = chain({clip_by_global_norm(1.0), adamw(1e-3)});
  OptState state = tx->init({{"b", at::zeros({2})}, {"a", at::zeros({3})}});
  std::vector<std::string> names;
  for (const auto& named : state.leaves()) names.push_back(named.name);
  EXPECT_THAT(names, ElementsAre("0/norm/global", "1/mu/a", "1/mu/b", "1/nu/a", "1/nu/b"));
  EXPECT_EQ(state.nbytes(), 8 + 2 * 4 * 5);
  EXPECT_EQ(state.to_json().dump(), R"({"kind": "chain", "children": [{"kind": "clip_by_global_norm"}, )"
                                    R"({"kind": "adamw", "counts": {"count": 0}}]})");
}

// Steps, a state that is saved and loaded, and more steps: the same as without the interruption.
TEST(OptState, ResumesFromASavedState) {
  const Schedule warmup = linear_schedule(0, 1e-2, 6);
  const std::vector<GradientTransformation> all{
      chain({clip_by_global_norm(1.0), adamw(warmup)}),
      MultiSteps(lion(warmup), 2),
      muon(warmup),
      adafactor({.learning_rate = warmup, .min_dim_size_to_factor = 2, .momentum = 0.9}),
      rmsprop({.learning_rate = warmup, .momentum = 0.9}),
      apply_if_finite(sgd({.learning_rate = warmup, .momentum = 0.9}), 3),
      inject_hyperparams([](const Hyperparams& h) { return adamw(h.at("learning_rate")); },
                         {{"learning_rate", warmup}})};
  for (const auto& tx : all) {
    TensorMap params = tree(), other = copy_of(params);
    OptState state = tx->init(params), written = tx->init(params);
    const auto steps = [&](TensorMap& map, OptState& from, int count) {
      for (int i = 0; i < count; ++i) {
        TensorMap gradients = copy_of(map);
        tx->apply(map, gradients, from);
      }
    };
    steps(params, state, 7);
    steps(other, written, 3);
    OptState read = tx->init(other);
    std::set<std::string> names;
    const auto to = read.leaves();
    const auto from = written.leaves();
    ASSERT_EQ(to.size(), from.size());
    for (std::size_t i = 0; i < to.size(); ++i) {
      EXPECT_EQ(to[i].name, from[i].name);
      EXPECT_TRUE(names.insert(to[i].name).second) << to[i].name;
      to[i].leaf->value.copy_(from[i].leaf->value);
    }
    read.load_json(Json::parse(written.to_json().dump()), "here");
    const OptState kept = written.clone();
    steps(other, read, 4);
    expect_same(other, params);
    for (std::size_t i = 0; i < from.size(); ++i) {
      EXPECT_TRUE(at::equal(kept.leaves()[i].leaf->value, from[i].leaf->value));
    }
  }
}

TEST(OptState, RejectsTheStateOfAnotherOptimizer) {
  const TensorMap params = tree();
  OptState state = chain({clip(1.0), adamw(1e-3)})->init(params);
  EXPECT_THAT([&] { state.load_json(sgd(1e-3)->init(params).to_json(), "state.json"); },
              ThrowsMessage<ConfigError>("[OptState] state.json is the state of \"sgd\", but the optimizer is "
                                         "\"chain\". Use the optimizer that saved it."));
  EXPECT_THAT([&] { state.load_json(chain({clip(1.0)})->init(params).to_json(), "state.json"); },
              ThrowsMessage<ConfigError>("[OptState] state.json: \"chain\" has 2 children; got 1."));
  EXPECT_THAT([&] { state.load_json(chain({clip(1.0), adam(1)})->init(params).to_json(), "state.json"); },
              ThrowsMessage<ConfigError>("[OptState] state.json/1 is the state of \"adam\", but the optimizer is "
                                         "\"adamw\". Use the optimizer that saved it."));
  Json json = state.to_json();
  json["children"].as_array()[1]["counts"]["count"] = -3;
  EXPECT_THAT(
      [&] { state.load_json(json, "state.json"); },
      ThrowsMessage<ConfigError>("[OptState] state.json/1: counts.count must be a non-negative integer; got -3."));
  for (const char* text : {"null", "[]", "{}", R"({"kind": 3})"}) {
    EXPECT_THAT([&] { state.load_json(Json::parse(text), "state.json"); },
                ThrowsMessage<ConfigError>("[OptState] state.json: \"kind\" must be a string."));
  }
}

TEST(Transformations, ReportInvalidInput) {
  TensorMap params = tree();
  const auto tx = adamw(1e-3);
  OptState state = tx->init(params);
  TensorMap gradients{{"c", at::zeros({2})}};
  EXPECT_THAT([&] { tx->apply(params, gradients, state); },
              ThrowsMessage<ConfigError>("[adamw] there is a gradient for \"c\", but no such parameter among 3."));
  gradients = {{"a.bias", at::zeros({4})}};
  EXPECT_THAT([&] { tx->apply(params, gradients, state); },
              ThrowsMessage<ShapeError>("[adamw] the gradient of \"a.bias\" is [4]; the parameter is [5]."));
  gradients = {{"a.bias", at::zeros({5}, at::kLong)}};
  EXPECT_THAT([&] { tx->apply(params, gradients, state); },
              ThrowsMessage<ConfigError>("[adamw] the gradient of \"a.bias\" must be of a float dtype; got Long."));
  gradients = {{"a.bias", at::zeros({5})}};
  OptState other = tx->init({{"b", at::zeros({2})}});
  EXPECT_THAT([&] { tx->apply(params, gradients, other); },
              ThrowsMessage<ConfigError>("[adamw] the state is for other parameters: mu has no entry for \"a.bias\"."));
  OptState of_sgd = sgd(1e-3)->init(params);
  EXPECT_THAT(
      [&] { tx->update(gradients, of_sgd, params); },
      ThrowsMessage<ConfigError>("[adamw] the state must be of kind \"adamw\"; got \"sgd\". Create it with init()."));
  EXPECT_THAT([&] { multi_transform({{"^a\\.", tx}})->init(params); },
              ThrowsMessage<ConfigError>("[multi_transform] none of 1 patterns matches the parameter \"s\". End "
                                         "with {\".*\", ...} for all others."));
  EXPECT_THAT(
      [&] { multi_transform({{"x", tx}}, [](auto, auto&) { return std::string("y"); })->init(params); },
      ThrowsMessage<ConfigError>("[multi_transform] the parameter \"a.weight\" has the label \"y\"; known: x."));
  const auto late = adamw(Schedule([](int64_t step) { return step < 2 ? 1e-3 : kNan; }));
  OptState late_state = late->init(params);
  for (int i = 0; i < 2; ++i) late->apply(params, gradients, late_state);
  EXPECT_THAT([&] { late->apply(params, gradients, late_state); },
              ThrowsMessage<ConfigError>("[adamw] learning_rate must be finite and not negative; got nan from the "
                                         "schedule \"custom\" at step 2."));
}

TEST(Optimizers, RefuseOptionsOutOfRange) {
  const auto message = [](const std::function<void()>& f) -> std::string {
    try {
      f();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(message([] { adamw(kNan); }), "[adamw] learning_rate must be finite and not negative; got nan.");
  EXPECT_EQ(message([] { adamw(-1e-3); }), "[adamw] learning_rate must be finite and not negative; got -0.001.");
  EXPECT_EQ(message([] { adam(INFINITY); }), "[adam] learning_rate must be finite and not negative; got inf.");
  EXPECT_EQ(message([] { adamw({.b1 = 1}); }), "[adamw] b1 must be in [0, 1); got 1.");
  EXPECT_EQ(message([] { adamw({.b2 = kNan}); }), "[adamw] b2 must be in [0, 1); got nan.");
  EXPECT_EQ(message([] { adamw({.weight_decay = -1}); }),
            "[adamw] weight_decay must be finite and not negative; got -1.");
  EXPECT_EQ(message([] { sgd({.nesterov = true}); }), "[sgd] nesterov needs a momentum.");
  EXPECT_EQ(message([] { lion({.b2 = -0.1}); }), "[lion] b2 must be in [0, 1); got -0.1.");
  EXPECT_EQ(message([] { muon({.preconditioning = "frobenus"}); }),
            "[muon] unknown preconditioning \"frobenus\"; known: aol, frobenius, schatten, spectral.");
  EXPECT_EQ(message([] { muon({.ns_steps = 0}); }), "[muon] ns_steps must be in [1, 100]; got 0.");
  EXPECT_EQ(message([] { muon({.reduction_axis = 2}); }), "[muon] reduction_axis must be 0 or 1; got 2.");
  EXPECT_EQ(message([] { adafactor({.clipping_threshold = 0}); }),
            "[clip_by_block_rms] threshold must be finite and positive; got 0.");
  EXPECT_EQ(message([] { clip_by_global_norm(kNan); }),
            "[clip_by_global_norm] max_norm must be finite and not negative; got nan.");
  EXPECT_EQ(message([] { MultiSteps(identity(), 0); }), "[MultiSteps] every_k must be at least 1; got 0.");
  EXPECT_EQ(message([] { chain({}); }), "[chain] there must be at least one transformation; got none.");
  EXPECT_EQ(message([] { chain({nullptr}); }), "[chain] got a null transformation.");
  EXPECT_EQ(message([] { apply_if_finite(identity(), -1); }),
            "[apply_if_finite] max_consecutive_errors must not be negative; got -1.");
}

}  // namespace
}  // namespace easydel::optim
