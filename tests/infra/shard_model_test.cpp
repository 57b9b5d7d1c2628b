// A model put on a mesh: what each rank stores, the way back, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/models/mixtral/model.h"
#include "easydel/sharding/world/current_world.h"
#include "tests/infra/on_mesh.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

constexpr Tolerance kShardTolerance{1e-12, 1e-12};

// Every parameter, gathered from its parts, is what one device has.
testing::AssertionResult holds_the_same(const BaseModule& model, const BaseModule& on_one_device) {
  const auto expected = on_one_device.params();
  for (const auto& [path, parameter] : model.named_parameters()) {
    if (!at::equal(parameter->whole(), expected.at(path))) return testing::AssertionFailure() << path;
  }
  return testing::AssertionSuccess();
}

int64_t stored_elements(const BaseModule& model) {
  int64_t sum = 0;
  for (const auto& [path, tensor] : model.params()) sum += tensor.numel();
  return sum;
}

TEST(ShardModel, StoresPartsByTheConfigsRules) {
  on_mesh({1, 2, 1, 2, 1}, [](const Mesh& mesh, World&) {
    const auto model = tiny_llama();
    EXPECT_EQ(&model->shard_model({}, mesh), model.get());

    EXPECT_EQ(model->mesh(), mesh);
    const TensorMap params = model->params();
    EXPECT_THAT(params.at("model.layers.0.self_attn.q_proj.weight").sizes(), ElementsAre(8, 8));  // P('tp', 'fsdp')
    EXPECT_THAT(params.at("model.layers.0.self_attn.k_proj.weight").sizes(), ElementsAre(4, 8));  // one head of two
    EXPECT_THAT(params.at("model.layers.0.self_attn.o_proj.weight").sizes(), ElementsAre(8, 8));  // P('fsdp', 'tp')
    EXPECT_THAT(params.at("model.layers.0.mlp.down_proj.weight").sizes(), ElementsAre(8, 12));
    EXPECT_THAT(params.at("model.norm.weight").sizes(), ElementsAre(16));
    EXPECT_TRUE(holds_the_same(*model, *tiny_llama()));
    EXPECT_EQ(model->num_params(), tiny_llama()->num_params());  // of the full model, on any mesh
  });
}

TEST(ShardModel, StoresASizeThatDoesNotDivideUnevenly) {
  on_mesh({1, 1, 1, 4, 1}, [](const Mesh& mesh, World& world) {
    const auto model = tiny_llama();
    model->shard_model({}, mesh);
    const int64_t rows = model->params().at("lm_head.weight").size(0);  // 29 over 4
    EXPECT_EQ(rows, world.rank() == 0 ? 7 : world.rank() == 3 ? 8 : 7);
    EXPECT_TRUE(holds_the_same(*model, *tiny_llama()));
  });
}

TEST(ShardModel, TakesRulesAndTheMeshOfTheConfig) {
  run_ranks(4, [](World&) {
    LlamaConfig config = tiny_config();
    config.sharding.axis_dims = {1, 2, 1, -1, 1};
    const auto model = make_model<LlamaForCausalLM>(config);
    model->shard_model(PartitionRules{{"embed_tokens", {"tp"}}, {"norm", {SpecDim{"tp", "fsdp"}}}, {".*", {}}});
    EXPECT_EQ(model->mesh(), mesh_of({1, 2, 1, 2, 1}));
    EXPECT_THAT(model->params().at("model.norm.weight").sizes(), ElementsAre(4));
    EXPECT_THAT(model->params().at("lm_head.weight").sizes(), ElementsAre(29, 16));
    EXPECT_TRUE(holds_the_same(*model, *tiny_llama()));
  });
}

TEST(ShardModel, TakesTheMeshThatTheConfigWasGiven) {
  on_mesh({1, 2, 1, 2, 1}, [](const Mesh& mesh, World&) {
    LlamaConfig config = tiny_config();  // whose own dims would be fsdp=4
    config.set_model_mesh(mesh);
    const char* const q_proj = "model.layers.0.self_attn.q_proj.weight";
    const auto model = make_model<LlamaForCausalLM>(config);
    model->shard_model();
    EXPECT_EQ(model->mesh(), mesh);
    EXPECT_THAT(model->params().at(q_proj).sizes(), ElementsAre(8, 8));
    const auto full = make_model<LlamaForCausalLM>(config);
    full->fully_shard();
    EXPECT_EQ(full->mesh(), mesh);
    const auto whole = make_model<LlamaForCausalLM>(config);
    EXPECT_THAT(whole->shard_fns().at(q_proj)(whole->params().at(q_proj)).sizes(), ElementsAre(8, 8));
    EXPECT_THAT(whole->gather_fns().at(q_proj)(model->params().at(q_proj)).sizes(), ElementsAre(16, 16));
    EXPECT_EQ(whole->named_shardings().at(q_proj).mesh, mesh);
    whole->fully_gather();
    EXPECT_EQ(whole->mesh(), mesh);
    // A mesh that is given counts before it, and gathering leaves the model where it is.
    const Mesh other = mesh_of({2, 1, 1, 1, 2});
    model->shard_model({}, other);
    model->gather_model();
    EXPECT_EQ(model->mesh(), other);
    EXPECT_TRUE(holds_the_same(*model, *tiny_llama()));
  });
}

TEST(ShardModel, MovesFromOneMeshToAnother) {
  const at::Tensor expected = logits_of(*wide_llama());
  on_mesh({1, 4, 1, 2, 1}, [&](const Mesh& mesh, World&) {
    const auto model = wide_llama();
    model->shard_model({}, mesh);
    model->shard_model({}, mesh_of({2, 1, 1, 1, 4}));
    EXPECT_EQ(model->mesh(), mesh_of({2, 1, 1, 1, 4}));
    EXPECT_TRUE(holds_the_same(*model, *wide_llama()));
    EXPECT_TRUE(is_close(logits_of(*model), expected, kShardTolerance));
  });
}

TEST(ShardModel, ByOtherRulesOnTheSameMeshBetweenSteps) {
  const at::Tensor expected = logits_of(*wide_llama());
  on_mesh({1, 2, 1, 2, 1}, [&](const Mesh& mesh, World&) {
    const auto model = wide_llama();
    const PartitionRules other{{"proj", {nullptr, SpecDim{"tp", "fsdp"}}}, {".*", {"fsdp"}}};
    for (int round = 0; round < 4; ++round) {
      model->shard_model({}, mesh);  // memory of the weights before may be used again by the next ones
      model->shard_model(round % 2 ? std::optional(other) : std::nullopt, mesh);
      for (int step = 0; step < 2; ++step) EXPECT_TRUE(is_close(logits_of(*model), expected, kShardTolerance)) << round;
    }
  });
}

TEST(ShardModel, KeepsGradientsInTheShapeOfTheirParameters) {
  on_mesh({1, 2, 1, 2, 1}, [](const Mesh& mesh, World&) {
    const auto model = tiny_llama();
    model->shard_model({}, mesh);
    (*model)({.input_ids = tiny_ids(), .labels = tiny_ids()}).loss.backward();
    for (const auto& [path, tensor] : model->params()) {
      EXPECT_TRUE(tensor.is_leaf()) << path;
      EXPECT_EQ(tensor.grad().sizes(), tensor.sizes()) << path;
    }
  });
}

TEST(ShardModel, KeepsTiedWeightsTied) {
  LlamaConfig config = tiny_config();
  config.tie_word_embeddings = true;
  const auto one = wide_llama(config);
  (*one)({.input_ids = tiny_ids(), .labels = tiny_ids()}).loss.backward();
  on_mesh({1, 1, 1, 2, 2}, [&](const Mesh& mesh, World&) {
    const auto model = wide_llama(config);
    model->shard_model({}, mesh);
    EXPECT_EQ(model->lm_head().weight(), model->named_parameters()[0].parameter);
    (*model)({.input_ids = tiny_ids(), .labels = tiny_ids()}).loss.backward();
    const auto [path, parameter] = model->named_parameters()[0];
    EXPECT_TRUE(is_close(parameter->sharding()->gather_whole(parameter->value().grad()),
                         one->params().at("model.embed_tokens.weight").grad(), kShardTolerance));
  });
}

TEST(ShardModel, NamesAParameterThatNoRuleMatchesAndMovesNone) {
  on_mesh({1, 2, 1, 1, 1}, [](const Mesh& mesh, World&) {
    const auto model = tiny_llama();
    const PartitionRules rules{{"proj", {"fsdp"}}, {"embed_tokens", {"fsdp"}}, {"layernorm", {}}};
    EXPECT_THAT(
        [&] { model->shard_model(rules, mesh); },
        ThrowsMessage<ConfigError>("[PartitionRules] every parameter must match a rule; none of 3 matches "
                                   "\"model.norm.weight\". Add a last rule \".*\" with P() to replicate the rest."));
    EXPECT_EQ(stored_elements(*model), model->num_params());
    EXPECT_EQ(model->parallel(), nullptr);
    EXPECT_THROW(model->specs_sharding(rules), ConfigError);
    EXPECT_THROW(model->shard_fns(rules, mesh), ConfigError);
  });
}

TEST(ShardModel, NamesTheParameterWhoseSpecDoesNotFit) {
  on_mesh({1, 2, 1, 1, 1}, [](const Mesh& mesh, World&) {
    const auto model = tiny_llama();
    EXPECT_THAT([&] { model->shard_model(PartitionRules{{"norm", {"fsdp", "tp"}}, {".*", {}}}, mesh); },
                ThrowsMessage<ConfigError>("[PartitionSpec] P('fsdp', 'tp') has 2 dimensions, but the tensor has 1. "
                                           "The parameter is \"model.layers.0.input_layernorm.weight\"."));
    EXPECT_THAT([&] { model->shard_model(PartitionRules{{"lm_head", {"pp"}}, {".*", {"fsdp"}}}, mesh); },
                ThrowsMessage<ConfigError>("[PartitionSpec] P('pp') names the axis \"pp\", which the mesh (dp=1 fsdp=2 "
                                           "ep=1 tp=1 sp=1) does not have. The parameter is \"lm_head.weight\"."));
    EXPECT_EQ(stored_elements(*model), model->num_params());
  });
}

TEST(ShardModel, RefusesAMeshOfAnotherSizeThanTheWorld) {
  run_ranks(4, [](World&) {
    EXPECT_THAT([] { tiny_llama()->shard_model({}, mesh_of({1, 2, 1, 1, 1})); },
                ThrowsMessage<ConfigError>("[DeviceMesh] a mesh must have a device for each rank; got dp=1 fsdp=2 ep=1 "
                                           "tp=1 sp=1 = 2 devices for 4 ranks."));
  });
}

TEST(ShardModel, OnOneDeviceChangesNothing) {
  const auto model = tiny_llama();
  model->shard_model();
  EXPECT_EQ(model->parallel(), nullptr);
  EXPECT_TRUE(at::equal(logits_of(*model), logits_of(*tiny_llama())));
}

TEST(GatherModel, StoresAllOnEveryRankAndGoesOnSharingTheWork) {
  const at::Tensor expected = logits_of(*wide_llama());
  on_mesh({1, 2, 1, 2, 1}, [&](const Mesh& mesh, World& world) {
    const auto model = wide_llama();
    model->shard_model({}, mesh).gather_model();
    for (const auto& [path, tensor] : model->params()) EXPECT_TRUE(at::equal(tensor, wide_llama()->params().at(path)));
    EXPECT_EQ(model->mesh(), mesh);
    for (const auto& [path, sharding] : model->params_sharding()) EXPECT_EQ(sharding.spec, PartitionSpec()) << path;
    world.stats().reset();
    EXPECT_TRUE(is_close(logits_of(*model), expected, kShardTolerance));
    EXPECT_TRUE(world.stats().entries.contains({"tp", "all_reduce"}));  // of its heads
    EXPECT_FALSE(world.stats().entries.contains({"tp+fsdp", "all_gather"}));
  });
}

TEST(FullyShard, CutsEveryParameterOverAllDevicesAlongItsLargestDimension) {
  const at::Tensor expected = logits_of(*wide_llama());
  on_mesh({1, 2, 1, 2, 2}, [&](const Mesh& mesh, World&) {
    const auto model = wide_llama();
    model->fully_shard(mesh);
    EXPECT_EQ(model->params_sharding().at("model.layers.0.mlp.down_proj.weight").spec,
              (PartitionSpec{nullptr, {"dp", "fsdp", "ep", "tp", "sp"}}));
    EXPECT_EQ(model->params_sharding().at("model.norm.weight").spec,
              (PartitionSpec{SpecDim{"dp", "fsdp", "ep", "tp", "sp"}}));
    // 29 rows of the vocabulary do not divide by 8.
    EXPECT_NEAR(static_cast<double>(stored_elements(*model)), static_cast<double>(model->num_params()) / 8, 2 * 16);
    EXPECT_TRUE(holds_the_same(*model, *wide_llama()));
    EXPECT_TRUE(is_close(logits_of(*model), expected, kShardTolerance));

    model->fully_gather();
    EXPECT_EQ(model->mesh(), mesh);
    EXPECT_EQ(stored_elements(*model), model->num_params());
    EXPECT_TRUE(is_close(logits_of(*model), expected, kShardTolerance));
  });
}

TEST(SpecsSharding, AreTheRulesAppliedToEveryPath) {
  const auto model = tiny_llama();
  const Specs specs = model->specs_sharding();
  EXPECT_EQ(specs.size(), model->params().size());
  EXPECT_EQ(specs.at("model.layers.1.self_attn.q_proj.weight"), (PartitionSpec{"tp", {"fsdp", "sp"}}));
  EXPECT_EQ(specs.at("model.norm.weight"), PartitionSpec());
  EXPECT_EQ(model->specs_sharding(PartitionRules{{".*", {"dp"}}}).at("model.norm.weight"), PartitionSpec{"dp"});
}

TEST(NamedShardings, HaveTheMeshThatIsAskedForOrTheModels) {
  const auto model = tiny_llama();
  const Mesh mesh = mesh_of({1, 4, 1, 2, 1});
  EXPECT_EQ(model->named_shardings({}, mesh).at("lm_head.weight"),
            (NamedSharding{mesh, PartitionSpec{"tp", {"fsdp", "sp"}}}));
  EXPECT_EQ(model->named_shardings().at("lm_head.weight").mesh, model->mesh());
}

TEST(ParamsSharding, SaysHowParametersLieNow) {
  on_mesh({1, 2, 1, 1, 1}, [](const Mesh& mesh, World&) {
    const auto model = tiny_llama();
    EXPECT_EQ(model->params_sharding().at("lm_head.weight").spec, PartitionSpec());
    model->shard_model({}, mesh);
    EXPECT_EQ(model->params_sharding(), model->named_shardings());
    EXPECT_EQ(model->params_sharding().at("lm_head.weight").mesh, mesh);
  });
}

TEST(ShardFns, CutWhatGatherFnsPutTogether) {
  on_mesh({1, 2, 1, 2, 1}, [](const Mesh& mesh, World&) {
    const auto model = tiny_llama(), sharded = tiny_llama();
    sharded->shard_model({}, mesh);
    const ShardFns shard = model->shard_fns({}, mesh), gather = model->gather_fns({}, mesh);
    EXPECT_EQ(shard.size(), model->params().size());
    for (const auto& [path, whole] : model->params()) {
      const at::Tensor part = shard.at(path)(whole.detach());
      EXPECT_TRUE(at::equal(part, sharded->params().at(path))) << path;
      EXPECT_FALSE(part.is_alias_of(whole)) << path;  // the whole can be dropped
      EXPECT_TRUE(at::equal(gather.at(path)(part), whole)) << path;
    }
    EXPECT_EQ(model->parallel(), nullptr);  // the model itself stays where it is
  });
}

TEST(ShardFns, NameAParameterOfAnotherShape) {
  on_mesh({1, 2, 1, 1, 1}, [](const Mesh& mesh, World&) {
    const auto model = tiny_llama();
    EXPECT_THAT(
        [&] { model->shard_fns({}, mesh).at("lm_head.weight")(at::zeros({29, 8})); },
        ThrowsMessage<ShapeError>("[shard_fns] \"lm_head.weight\" must be [29, 16], the whole tensor; got [29, 8]."));
    EXPECT_THAT(
        [&] { model->gather_fns({}, mesh).at("lm_head.weight")(at::zeros({29, 16})); },
        ThrowsMessage<ShapeError>("[gather_fns] \"lm_head.weight\" must be [29, 8], this rank's part; got [29, 16]."));
  });
}

TEST(ApplyShardingFns, TakesATreeOfSomeParameters) {
  on_mesh({1, 2, 1, 1, 1}, [](const Mesh& mesh, World&) {
    const auto model = tiny_llama();
    const TensorMap tree{{"lm_head.weight", model->params().at("lm_head.weight").detach()},
                         {"model.norm.weight", at::ones({16})}};
    const TensorMap parts = model->apply_sharding_fns(tree, {}, mesh);
    EXPECT_THAT(parts.at("lm_head.weight").sizes(), ElementsAre(29, 8));
    EXPECT_THAT(parts.at("model.norm.weight").sizes(), ElementsAre(16));
    const TensorMap whole = model->apply_sharding_fns(parts, {}, mesh, /*is_gather=*/true);
    EXPECT_TRUE(at::equal(whole.at("lm_head.weight"), tree.at("lm_head.weight")));
    EXPECT_EQ(whole.paths(), tree.paths());
    EXPECT_THAT([&] { model->apply_sharding_fns({{"lm_head.bias", at::ones({29})}}, {}, mesh); },
                ThrowsMessage<ConfigError>("[apply_sharding_fns] LlamaForCausalLM has no lm_head.bias."));
  });
}

TEST(PlaceParameters, OfAModelWithoutMemoryNeedsNone) {
  const auto model = lazy_init<LlamaForCausalLM>(LlamaConfig());  // seven billion
  const MemoryUse use =
      memory_use([&] { place_parameters(*model, {}, planned_world(8, 3), mesh_of({1, 2, 1, 2, 2})); });
  EXPECT_EQ(use.peak, 0);
  EXPECT_TRUE(model->is_lazy());
  EXPECT_THAT(model->params().at("model.layers.31.mlp.up_proj.weight").sizes(), ElementsAre(5504, 1024));
  EXPECT_EQ(model->num_params(), 6738415616);
}

TEST(Initialize, GivesTheNumbersOfOneDeviceAndAllocatesOnlyTheParts) {
  MixtralConfig config;
  config.vocab_size = 29;
  config.hidden_size = 16;
  config.intermediate_size = 6;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.num_local_experts = 3;
  const ModuleOptions options{.rngs = RandomKey(5)};
  const auto whole = make_model<MixtralForCausalLM>(config, options);
  on_mesh({1, 2, 2, 2, 1}, [&](const Mesh& mesh, World&) {
    const auto model = lazy_init<MixtralForCausalLM>(config, options);
    place_parameters(*model, {}, World::current(), mesh);
    const int64_t held = held_bytes([&] { model->initialize(options); });
    EXPECT_EQ(held, stored_elements(*model) * 4);
    EXPECT_LT(held, whole->num_params() * 4 / 3);
    EXPECT_TRUE(holds_the_same(*model, *whole));
  });
}

TEST(SplitModule, OnAMeshCopiesNothingAndGivesTheSameModel) {
  const at::Tensor expected = logits_of(*wide_llama());
  on_mesh({1, 2, 1, 2, 1}, [&](const Mesh& mesh, World&) {
    const auto model = wide_llama();
    model->shard_model({}, mesh);
    const auto [definition, state] = model->split_module();
    EXPECT_THAT((*definition.parameters)[0].shape.shape, ElementsAre(29, 16));  // of the full weight
    const auto merged = BaseModule::merge_module(definition, state);
    EXPECT_EQ(merged->mesh(), mesh);
    EXPECT_EQ(merged->params_sharding(), model->params_sharding());
    for (const auto& [path, tensor] : merged->params())
      EXPECT_EQ(tensor.data_ptr(), model->params().at(path).data_ptr()) << path;
    EXPECT_TRUE(is_close(logits_of(*merged), expected, kShardTolerance));
    EXPECT_TRUE(
        is_close(model->pure_transform_fn()(state, {.input_ids = tiny_ids()}).logits, expected, kShardTolerance));

    EXPECT_THAT([&] { BaseModule::merge_module(definition, wide_llama()->params()); },
                ThrowsMessage<ShapeError>(testing::HasSubstr("[merge_params] \"model.embed_tokens.weight\" is [")));
  });
}

TEST(ToTorch, GathersEveryParameter) {
  on_mesh({1, 2, 1, 2, 1}, [](const Mesh& mesh, World&) {
    const auto model = tiny_llama();
    model->shard_model({}, mesh);
    const TensorMap torch = model->to_torch();
    for (const auto& [path, tensor] : tiny_llama()->to_torch()) EXPECT_TRUE(at::equal(torch.at(path), tensor)) << path;
    const GraphState parts = model->transform_fn(torch);  // and the way back, to this rank's parts
    for (const auto& [path, tensor] : model->params()) EXPECT_TRUE(at::equal(parts.at(path), tensor)) << path;
  });
}

TEST(ToDtype, CastsTheParts) {
  on_mesh({1, 2, 1, 1, 1}, [](const Mesh& mesh, World&) {
    const auto model = tiny_llama();
    model->shard_model({}, mesh).to_dtype(bfloat16);
    EXPECT_EQ(model->params().at("lm_head.weight").scalar_type(), at::kBFloat16);
    EXPECT_THAT(model->params().at("lm_head.weight").sizes(), ElementsAre(29, 8));
    EXPECT_TRUE(is_close(logits_of(*model), logits_of(tiny_llama()->to_dtype(bfloat16))));
  });
}

}  // namespace
}  // namespace easydel
