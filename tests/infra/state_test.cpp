// State: a training run at one moment, as a value, on a mesh, and in files.
#include "easydel/infra/state/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/optim/optimizers.h"
#include "easydel/optim/rules/transforms.h"
#include "tests/infra/on_mesh.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

at::Tensor loss_of(const BaseModule& model) {
  return model({.input_ids = tiny_ids(4, 8), .labels = tiny_ids(4, 8)}).loss;
}

optim::GradientTransformation clipped_adamw() {
  return optim::chain({optim::clip_by_global_norm(1.0), optim::adamw(1e-2)});
}

TEST(State, StepsAsItsOptimizerDoes) {
  State state = tiny_llama()->to_state(optim::sgd(0.5));
  const auto [loss, grads] = value_and_grad(state, loss_of);
  EXPECT_EQ(grads.paths(), state.graphstate.paths());
  const State next = state.apply_gradients(grads);
  EXPECT_EQ(next.step, 1);
  for (const auto& [path, tensor] : next.graphstate)
    EXPECT_TRUE(is_close(tensor, state.graphstate.at(path) - 0.5 * grads.at(path))) << path;
  EXPECT_LT(loss_of(*next.model()).item<double>(), loss.item<double>());
}

TEST(State, IsAValue) {
  const State state = tiny_llama()->to_state(optim::adamw(1e-2));
  const at::Tensor kept = state.graphstate.at("lm_head.weight").detach().clone();
  const auto grads = value_and_grad(state, loss_of).second;
  const at::Tensor kept_grad = grads.at("lm_head.weight").clone();
  const State once = state.apply_gradients(grads), again = state.apply_gradients(grads);
  EXPECT_TRUE(at::equal(state.graphstate.at("lm_head.weight"), kept));
  EXPECT_TRUE(at::equal(grads.at("lm_head.weight"), kept_grad));
  EXPECT_EQ(state.step, 0);
  for (const auto& [path, tensor] : once.graphstate) EXPECT_TRUE(at::equal(tensor, again.graphstate.at(path))) << path;
}

TEST(State, InPlaceIsTheSameStepInTheSameMemory) {
  const auto model = tiny_llama();
  State state = model->to_state(clipped_adamw());
  State value = State(state);
  value.graphstate = {};
  for (const auto& [path, tensor] : state.graphstate)
    value.graphstate.set(path, tensor.detach().clone().requires_grad_());
  value.opt_state = state.opt_state->clone();
  for (int i = 0; i < 3; ++i) {
    value = value.apply_gradients(value_and_grad(value, loss_of).second);
    const void* memory = state.graphstate.at("lm_head.weight").data_ptr();
    GraphState grads = value_and_grad(state, loss_of).second;
    state = std::move(state).apply_gradients(std::move(grads));
    EXPECT_EQ(state.graphstate.at("lm_head.weight").data_ptr(), memory);
  }
  EXPECT_EQ(state.step, 3);
  for (const auto& [path, tensor] : value.graphstate)
    EXPECT_TRUE(at::equal(tensor, model->params().at(path))) << path;  // the model that was taken before sees it
}

TEST(State, InPlaceAllocatesNothingThatGrowsWithTheModel) {
  const auto allocated = [](int64_t hidden) {
    LlamaConfig config = tiny_config();
    config.hidden_size = hidden;
    config.intermediate_size = 2 * hidden;
    State state = make_model<LlamaForCausalLM>(config)->to_state(clipped_adamw());
    GraphState grads = value_and_grad(state, loss_of).second;
    // Once, so that whatever is made with the first step is there.
    state = std::move(state).apply_gradients(std::move(grads));
    grads = value_and_grad(state, loss_of).second;
    return peak_bytes([&] { state = std::move(state).apply_gradients(std::move(grads)); });
  };
  // A buffer of at most a mebibyte, whatever the size: 4 MiB of weights, then 18.
  constexpr int64_t kMax = (1 << 20) + (64 << 10);
  EXPECT_LT(allocated(256), kMax);
  EXPECT_LT(allocated(512), kMax);
}

TEST(State, CreateRefusesWhatDoesNotGoTogether) {
  const auto model = tiny_llama();
  const auto [def, state, other] = model->split_module_parts();
  EXPECT_THAT([&] { State::create({.graphdef = def, .model = model.get()}); },
              ThrowsMessage<ConfigError>("[State::create] give a model or graph components (graphdef, graphstate, "
                                         "graphother), not both."));
  EXPECT_THAT([&] { State::create({.graphdef = def, .graphstate = state}); },
              ThrowsMessage<ConfigError>("[State::create] graph components come together; missing: graphother."));
  const auto tx = optim::sgd(0.1);
  EXPECT_THAT(
      [&] { State::create({.model = model.get(), .tx = tx, .opt_state = optim::OptState{}, .init_opt_state = true}); },
      ThrowsMessage<ConfigError>("[State::create] init_opt_state makes an opt_state; one was given too."));
  EXPECT_THAT([&] { State::create({.model = model.get(), .init_opt_state = true}); },
              ThrowsMessage<ConfigError>("[State::create] init_opt_state needs a tx."));
  EXPECT_THAT([] { State::create({}); },
              ThrowsMessage<ConfigError>("[State::create] a model or graphdef, graphstate and graphother are needed."));
  const State parts = State::create({.step = 7, .graphdef = def, .graphstate = state, .graphother = other});
  EXPECT_EQ(parts.step, 7);
  EXPECT_TRUE(at::equal(loss_of(*parts.model()), loss_of(*model)));
}

TEST(State, SaysWhatIsMissing) {
  const State bare = tiny_llama()->to_state();
  EXPECT_THAT([&] { bare.apply_gradients({}); },
              ThrowsMessage<ConfigError>("[apply_gradients] the state has no tx: make it with init_tx(tx)."));
  EXPECT_THAT([&] { bare.replace({.tx = optim::sgd(0.1)}).apply_gradients({}); },
              ThrowsMessage<ConfigError>("[apply_gradients] opt_state is not initialized: make it with init_tx(tx) or "
                                         "load_optimizer."));
  EXPECT_THAT([&] { bare.gather_optimizer_state(); }, ThrowsMessage<ConfigError>(HasSubstr("opt_state is not")));
  EXPECT_THAT([&] { bare.shard_optimizer_state(); }, ThrowsMessage<ConfigError>(HasSubstr("opt_state is not")));
  const State state = bare.init_tx(optim::sgd(0.1));
  EXPECT_THAT([&] { state.apply_gradients({{"nobody", at::zeros({1})}}); },
              ThrowsMessage<ConfigError>(HasSubstr("\"nobody\", which is not a parameter of this state")));
  EXPECT_THAT([&] { state.apply_gradients({{"lm_head.weight", at::zeros({1})}}); },
              ThrowsMessage<ShapeError>("[apply_gradients] \"lm_head.weight\" is [29, 16]; its gradient is [1]."));
}

TEST(State, SizeCountsParametersAndOptimizer) {
  const auto model = tiny_llama();
  const int64_t weights = model->num_params() * 4;
  EXPECT_EQ(model->to_state().size(), weights);
  EXPECT_GE(model->to_state(optim::adamw(0.1)).size(), 3 * weights);
}

TEST(State, MergesTreesAndReplacesFields) {
  const State state = tiny_llama()->to_state(optim::sgd(0.1));
  GraphState zeros;
  for (const auto& [path, tensor] : state.graphstate) zeros.set(path, at::zeros_like(tensor));
  EXPECT_EQ(logits_of(*state.merge(zeros)).abs().max().item<double>(), 0);
  EXPECT_EQ(logits_of(*state.merge_to_state(zeros).model()).abs().max().item<double>(), 0);
  EXPECT_EQ(state.replace({.step = 5}).step, 5);
  bool called = false;
  const State with = state.replace({.apply_fn = ApplyFn([&](const GraphState&, const ModelInputs&) {
                                      called = true;
                                      return ModelOutput{};
                                    })});
  with.apply({.input_ids = tiny_ids()});
  EXPECT_TRUE(called);
}

// A few steps on a mesh are those of one device, wherever parameters and moments lie.
TEST(State, IsOneOnAnyMesh) {
  const auto run = [](State state) {
    for (int i = 0; i < 3; ++i) {
      GraphState grads = value_and_grad(state, loss_of).second;
      state = std::move(state).apply_gradients(std::move(grads));
    }
    return state;
  };
  const State alone = run(wide_llama()->to_state(clipped_adamw()));
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{1, 2, 1, 2, 1}, {2, 1, 1, 1, 2}, {1, 3, 1, 1, 1}, {2, 2, 1, 2, 1}}) {
    on_mesh(dims, [&](const Mesh& mesh, World&) {
      const auto model = wide_llama();
      model->shard_model({}, mesh);
      const State state = run(model->to_state(clipped_adamw()));
      EXPECT_LT(state.size(), alone.size());
      const State whole = state.gather_state();
      for (const auto& [path, tensor] : whole.graphstate)
        EXPECT_TRUE(is_close(tensor, alone.graphstate.at(path), {0, 1e-9})) << path << " on " << mesh.to_string();
      const auto moments = whole.opt_state->leaves(), expected = alone.opt_state->leaves();
      ASSERT_EQ(moments.size(), expected.size());
      for (std::size_t i = 0; i < moments.size(); ++i)
        EXPECT_TRUE(is_close(moments[i].leaf->value, expected[i].leaf->value, {0, 1e-9})) << moments[i].name;
      // And dealt again it goes on.
      const State dealt = whole.shard_state({}, mesh);
      EXPECT_EQ(dealt.size(), state.size());
      EXPECT_EQ(dealt.shardings().graphstate, state.shardings().graphstate);
      EXPECT_EQ(dealt.shardings().opt_state, state.shardings().opt_state);
      const State shaped = whole.shard_with_shape(state.shardings());
      EXPECT_EQ(shaped.shardings().graphstate, state.shardings().graphstate);
      const auto next = [](const State& s) { return s.apply_gradients(value_and_grad(s, loss_of).second); };
      EXPECT_TRUE(is_close(loss_of(*next(dealt).model()), loss_of(*next(shaped).model()), {0, 1e-12}));
      EXPECT_TRUE(is_close(loss_of(*next(dealt).model()), loss_of(*next(alone).model()), {0, 1e-9}));
    });
  }
}

TEST(State, KeepsItsOptimizerOnRulesOfItsOwn) {
  const PartitionRules rules{{"^mu/.*proj", {"fsdp"}},
                             {"embed_tokens|lm_head", {SpecDim{"tp", "fsdp"}}},
                             {"^0/norm", {}},
                             {"nu/.*proj", {nullptr, SpecDim{"fsdp", "tp"}}},
                             {"norm", {"tp"}}};
  const auto step = [](const State& s) { return s.apply_gradients(value_and_grad(s, loss_of).second); };
  const State alone = step(step(wide_llama()->to_state(clipped_adamw())));
  on_mesh({2, 2, 1, 2, 1}, [&](const Mesh& mesh, World&) {
    const auto model = wide_llama();
    model->shard_model({}, mesh);
    const State fresh = model->to_state().init_tx(clipped_adamw(), rules);
    const NamedShardings layout = fresh.shardings().opt_state;
    EXPECT_EQ(layout.at("1/mu/model.layers.0.self_attn.q_proj.weight").spec, PartitionSpec{"fsdp"});
    EXPECT_EQ(layout.at("1/nu/model.layers.0.self_attn.q_proj.weight").spec,
              (PartitionSpec{nullptr, SpecDim{"fsdp", "tp"}}));
    EXPECT_EQ(layout.at("1/mu/model.norm.weight").spec, PartitionSpec{"tp"});
    EXPECT_EQ(layout.at("1/mu/lm_head.weight").spec, (PartitionSpec{SpecDim{"tp", "fsdp"}}));
    const State state = step(step(fresh));
    EXPECT_EQ(state.shardings().opt_state, layout);
    const auto holds_the_same = [&](const State& whole) {
      for (const auto& [path, tensor] : alone.graphstate)
        EXPECT_TRUE(is_close(whole.graphstate.at(path), tensor, {0, 1e-9})) << path;
      const auto ours = whole.opt_state->leaves(), theirs = alone.opt_state->leaves();
      for (std::size_t i = 0; i < theirs.size(); ++i)
        EXPECT_TRUE(is_close(ours[i].leaf->value, theirs[i].leaf->value, {0, 1e-9})) << theirs[i].name;
    };
    holds_the_same(state.gather_state());
    // Gathered, laid out again by the rules, and by the shape of another state.
    const State gathered = state.gather_optimizer_state();
    EXPECT_TRUE(gathered.shardings().opt_state.empty());
    EXPECT_EQ(gathered.shard_optimizer_state({}, rules).shardings().opt_state, layout);
    EXPECT_NE(gathered.shard_optimizer_state().shardings().opt_state, layout);
    const State shaped = state.gather_state().shard_with_shape(state.shardings());
    EXPECT_EQ(shaped.shardings().graphstate, state.shardings().graphstate);
    EXPECT_EQ(shaped.shardings().opt_state, layout);
    EXPECT_EQ(shaped.size(), state.size());
    for (const State& other : {gathered, shaped}) {
      EXPECT_TRUE(is_close(loss_of(*step(other).model()), loss_of(*step(alone).model()), {0, 1e-9}));
    }
  });
}

TEST(State, SavesAndLoadsAnOptimizerOnRulesOfItsOwn) {
  const TemporaryDirectory directory;
  const PartitionRules rules{{"proj", {"dp", "tp"}}, {".*", {SpecDim{"dp", "tp"}}}};
  on_mesh({2, 1, 1, 2, 1}, [&](const Mesh& mesh, World&) {
    const auto model = wide_llama();
    model->shard_model({}, mesh);
    State state = model->to_state().init_tx(optim::adamw(1e-2), rules);
    GraphState grads = value_and_grad(state, loss_of).second;
    state = std::move(state).apply_gradients(std::move(grads));
    state.save_state(directory / "s", {.verbose = false});
    const State loaded = state.load_optimizer(directory / "s", rules);
    EXPECT_EQ(loaded.shardings().opt_state, state.shardings().opt_state);
    const auto ours = loaded.opt_state->leaves(), theirs = std::as_const(*state.opt_state).leaves();
    for (std::size_t i = 0; i < theirs.size(); ++i)
      EXPECT_TRUE(at::equal(ours[i].leaf->value, theirs[i].leaf->value)) << theirs[i].name;
  });
}

TEST(State, NamesWhatDoesNotFitTheRulesOfTheOptimizer) {
  on_mesh({1, 2, 1, 1, 1}, [](const Mesh& mesh, World&) {
    const auto model = tiny_llama();
    model->shard_model({}, mesh);
    const State state = model->to_state();
    EXPECT_THAT([&] { state.init_tx(optim::adamw(1e-2), PartitionRules{{"proj", {"fsdp"}}}); },
                ThrowsMessage<ConfigError>("[PartitionRules] every leaf of an optimizer state must match a rule; got "
                                           "none of 1 for \"mu/lm_head.weight\". A last rule \".*\" with P() keeps the "
                                           "rest whole."));
    EXPECT_THAT([&] { state.init_tx(optim::adamw(1e-2), PartitionRules{{"norm", {nullptr, "fsdp"}}, {".*", {}}}); },
                ThrowsMessage<ConfigError>("[PartitionSpec] P(None, 'fsdp') has 2 dimensions, but the tensor has 1. "
                                           "The leaf is \"mu/model.layers.0.input_layernorm.weight\"."));
    const State with = state.init_tx(optim::adamw(1e-2));
    StateShardings shape = with.shardings();
    shape.opt_state["mu/nobody"] = {mesh, {}};
    EXPECT_THAT([&] { with.shard_with_shape(shape); },
                ThrowsMessage<ConfigError>("[shard_with_shape] the optimizer state has no leaf \"mu/nobody\"."));
  });
}

TEST(State, ShardingsNameBuffersToo) {
  on_mesh({1, 2, 1, 1, 1}, [](const Mesh& mesh, World&) {
    const auto model = tiny_llama();
    model->shard_model({}, mesh);
    State state = model->to_state(optim::sgd(0.1));
    EXPECT_TRUE(state.shardings().graphother.empty());
    state.graphother.set("table", at::zeros({3}));
    StateShardings shape = state.shardings();
    EXPECT_EQ(shape.graphother, (NamedShardings{{"table", {mesh, {}}}}));
    shape.graphother["table"].spec = {"fsdp"};
    EXPECT_THAT([&] { state.shard_with_shape(shape); },
                ThrowsMessage<ConfigError>("[shard_with_shape] buffers are whole on every rank; got P('fsdp') for "
                                           "\"table\"."));
    shape.graphother = {{"nothing", {mesh, {}}}};
    EXPECT_THAT([&] { state.shard_with_shape(shape); },
                ThrowsMessage<ConfigError>("[shard_with_shape] this state has no buffer \"nothing\"."));
  });
}

TEST(State, SavesOnOneMeshAndLoadsOnAnother) {
  const TemporaryDirectory directory;
  const LoadOptions wide{.dtype = float64, .param_dtype = float64, .verbose = false};
  for (const bool adafactor : {false, true}) {
    const auto tx =
        adafactor ? optim::adafactor({.learning_rate = 1e-2, .min_dim_size_to_factor = 8}) : clipped_adamw();
    const std::string name = adafactor ? "adafactor" : "adamw";
    const auto step = [](State state) {
      GraphState grads = value_and_grad(state, loss_of).second;
      return std::move(state).apply_gradients(std::move(grads));
    };
    State alone = step(step(wide_llama()->to_state(tx)));
    on_mesh({1, 2, 1, 2, 1}, [&](const Mesh& mesh, World&) {
      const auto model = wide_llama();
      model->shard_model({}, mesh);
      step(step(model->to_state(tx))).save_state(directory / name, {.verbose = false});
    });
    alone.save_state(directory / (name + "-alone"), {.verbose = false});
    const State expected = step(alone);
    const State loaded = State::load_state(directory / name, wide, tx);
    EXPECT_EQ(loaded.step, 2);
    const State after = step(loaded);
    for (const auto& [path, tensor] : after.graphstate)
      EXPECT_TRUE(is_close(tensor, expected.graphstate.at(path), {0, 1e-9})) << path;
    on_mesh({2, 1, 1, 1, 2}, [&](const Mesh&, World&) {
      LoadOptions options = wide;
      options.sharding.auto_shard_model = true;
      options.sharding.axis_dims = {2, 1, 1, 1, 2};
      const State mine = step(State::load_state(directory / name, options, tx)).gather_state();
      for (const auto& [path, tensor] : mine.graphstate)
        EXPECT_TRUE(is_close(tensor, expected.graphstate.at(path), {0, 1e-9})) << path;
    });
    // Without a tx the state has the form of the file.
    const State formless = State::load_state(directory / name, wide);
    EXPECT_EQ(formless.opt_state->leaves().size(), loaded.opt_state->leaves().size());
    EXPECT_EQ(formless.opt_state->nbytes(), loaded.opt_state->nbytes());
  }
}

TEST(State, LoadingRefusesWhatDoesNotFit) {
  const TemporaryDirectory directory;
  const State state = tiny_llama()->to_state(optim::adamw(1e-2));
  state.save_state(directory / "whole", {.verbose = false});
  state.save_state(directory / "bare", {.verbose = false, .save_optimizer = false});
  tiny_llama()->save_pretrained(directory / "model", {.verbose = false});
  const LoadOptions quiet{.verbose = false};
  EXPECT_THAT([&] { State::load_state(directory / "model", quiet); },
              ThrowsMessage<IoError>(HasSubstr("has no state.json: it is not a saved state.")));
  EXPECT_THAT([&] { state.load_optimizer(directory / "bare"); },
              ThrowsMessage<IoError>(HasSubstr("the optimizer was not saved with this state")));
  EXPECT_THAT([&] { State::load_state(directory / "whole", quiet, optim::lion(1e-4)); },
              ThrowsMessage<ConfigError>(HasSubstr("state.json")));
  EXPECT_EQ(State::load_state(directory / "bare", quiet, optim::adamw(1e-2)).opt_state->leaves().size(),
            state.opt_state->leaves().size());
}

TEST(State, AFailedSaveLeavesWhatWasThere) {
  const TemporaryDirectory directory;
  State state = tiny_llama()->to_state(optim::adamw(1e-2));
  state.save_state(directory / "s", {.verbose = false});
  write_file_atomically(directory / "s" / "notes.txt", "mine");
  const std::string model = read_file(directory / "s" / "model.safetensors");
  GraphState grads = value_and_grad(state, loss_of).second;
  state = std::move(state).apply_gradients(std::move(grads));
  {
    const FileSizeLimit limit(1000);
    EXPECT_THROW(state.save_state(directory / "s", {.verbose = false}), IoError);
  }
  EXPECT_EQ(read_file(directory / "s" / "model.safetensors"), model);
  EXPECT_EQ(State::load_state(directory / "s", {.verbose = false}).step, 0);
  state.save_state(directory / "s", {.verbose = false});
  EXPECT_EQ(State::load_state(directory / "s", {.verbose = false}).step, 1);
  EXPECT_EQ(read_file(directory / "s" / "notes.txt"), "mine");  // what is not ours stays
}

}  // namespace
}  // namespace easydel
