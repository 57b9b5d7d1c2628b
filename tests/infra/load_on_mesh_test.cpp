// Files read onto a mesh: each rank its own parts, by rules, by functions, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/infra/auto_model.h"
#include "easydel/sharding/world/current_world.h"
#include "tests/infra/on_mesh.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

class LoadOnMesh : public testing::Test {
 protected:
  void SetUp() override { tiny_llama()->save_pretrained(directory_.path(), {.verbose = false}); }
  template <class Auto = AutoModelForCausalLM>
  std::shared_ptr<BaseModule> load(LoadOptions options) {
    options.verbose = false;
    options.sharding.auto_shard_model = options.sharding.auto_shard_model || !options.auto_shard_params;
    return Auto::from_pretrained(directory_.path().string(), options);
  }
  std::string where() const { return concat("[", (directory_ / "model.safetensors").string(), "] "); }

  TemporaryDirectory directory_;
};

TEST_F(LoadOnMesh, GivesEachRankItsPartsByTheConfigsRules) {
  on_mesh({1, 2, 1, 2, 1}, [&](const Mesh& mesh, World&) {
    const auto expected = tiny_llama();
    expected->shard_model({}, mesh);
    for (const bool old_name : {false, true}) {
      const auto model = load({.sharding = {.axis_dims = {1, 2, 1, 2, 1}}, .auto_shard_params = old_name});
      EXPECT_EQ(model->mesh(), mesh);
      EXPECT_EQ(model->params_sharding(), expected->params_sharding());
      for (const auto& [path, tensor] : model->params()) {
        EXPECT_TRUE(at::equal(tensor, expected->params().at(path))) << path;
        EXPECT_TRUE(tensor.requires_grad()) << path;
      }
    }
  });
}

TEST_F(LoadOnMesh, TakesTheOlderFourAxesNamesAndTheOuterNetwork) {
  run_ranks(8, [&](World&) {
    EXPECT_EQ(load({.sharding = {.axis_dims = {1, 2, -1, 1}}})->mesh(), mesh_of({1, 2, 1, 4, 1}));
    PartitionAxis axes;
    axes.data_parallel_axis = "data";
    axes.tensor_parallel_axis = "model";
    const auto named = load({.sharding = {.axis_dims = {1, 4, 1, 2, 1},
                                          .axis_names = {"data", "fsdp", "ep", "model", "sp"},
                                          .partition_axis = axes}});
    EXPECT_EQ(named->mesh(), Mesh({{"data"}, {"fsdp", 4}, {"ep"}, {"model", 2}, {"sp"}}));
    EXPECT_EQ(named->params_sharding().at("lm_head.weight").spec, (PartitionSpec{"model", {"fsdp", "sp"}}));
    const auto outer = load({.sharding = {.axis_dims = {1, 2, 1, 2, 1}, .dcn_axis_dims = {1, 2, 1, 1, 1}}});
    EXPECT_EQ(outer->mesh(), Mesh({{"dp"}, {"fsdp", 4, 2}, {"ep"}, {"tp", 2}, {"sp"}}));
    EXPECT_TRUE(at::equal(outer->named_parameters()[0].parameter->whole(), tiny_llama()->params().begin()->second));
  });
}

TEST_F(LoadOnMesh, TakesRulesInPlaceOfTheConfigs) {
  on_mesh({1, 2, 1, 1, 1}, [&](const Mesh&, World& world) {
    const auto model = load({.partition_rules = PartitionRules{{"lm_head", {"fsdp"}}, {".*", {}}}});
    const int64_t begin = world.rank() == 0 ? 0 : 14, rows = world.rank() == 0 ? 14 : 15;  // of 29
    EXPECT_TRUE(at::equal(model->params().at("lm_head.weight"),
                          tiny_llama()->params().at("lm_head.weight").narrow(0, begin, rows)));
    EXPECT_THAT(model->params().at("model.embed_tokens.weight").sizes(), ElementsAre(29, 16));
  });
}

TEST_F(LoadOnMesh, NamesAParameterThatNoRuleMatches) {
  on_mesh({1, 2, 1, 1, 1}, [&](const Mesh&, World&) {
    EXPECT_THAT([&] { load({.partition_rules = PartitionRules{{"proj", {"fsdp"}}}}); },
                ThrowsMessage<ConfigError>(
                    "[PartitionRules] every parameter must match a rule; none of 1 matches "
                    "\"model.embed_tokens.weight\". Add a last rule \".*\" with P() to replicate the rest."));
  });
}

TEST_F(LoadOnMesh, RefusesAMeshThatDoesNotFitTheRanks) {
  run_ranks(8, [&](World&) {
    EXPECT_THAT([&] { load({.sharding = {.axis_dims = {1, 4, 1, 3, 1}}}); },
                ThrowsMessage<ConfigError>("[create_mesh] sharding_axis_dims must multiply to the number of devices; "
                                           "got 1x4x1x3x1 = 12, but there are 8 devices."));
    EXPECT_THAT([&] { load({.sharding = {.axis_dims = {1, -1, 1, 3, 1}}}); },
                ThrowsMessage<ConfigError>("[create_mesh] the -1 in sharding_axis_dims must resolve to an integer; got "
                                           "1x-1x1x3x1, and 8 devices are not a multiple of 3."));
  });
}

TEST_F(LoadOnMesh, GivesWholeParametersToFunctionsOfTheirPath) {
  on_mesh({1, 2, 1, 1, 1}, [&](const Mesh& mesh, World& world) {
    const int64_t half = 8 * world.rank();
    const auto model = load({.shard_fns = {{"lm_head.weight", [&](const at::Tensor& whole) {
                                              EXPECT_THAT(whole.sizes(), ElementsAre(29, 16));
                                              return whole.narrow(1, half, 8) * 2;
                                            }}}});
    const auto expected = tiny_llama();
    EXPECT_TRUE(at::equal(model->params().at("lm_head.weight"),
                          expected->params().at("lm_head.weight").narrow(1, half, 8) * 2));
    EXPECT_THAT(model->params().at("model.embed_tokens.weight").sizes(), ElementsAre(29, 8));

    // What the model itself would do.
    const auto same = load({.shard_fns = expected->shard_fns({}, mesh)});
    for (const auto& [path, tensor] : load({})->params()) EXPECT_TRUE(at::equal(same->params().at(path), tensor));
  });
}

TEST_F(LoadOnMesh, RefusesAFunctionThatGivesAnotherShapeThanIsStored) {
  on_mesh({1, 2, 1, 1, 1}, [&](const Mesh&, World&) {
    EXPECT_THAT([&] { load({.shard_fns = {{"lm_head.weight", [](const at::Tensor& whole) { return whole; }}}}); },
                ThrowsMessage<ShapeError>("[shard_fns] \"lm_head.weight\" must give [29, 8], the part that this rank "
                                          "stores; got [29, 16]."));
    EXPECT_THAT([&] { load({.shard_fns = {{"lm_head", [](const at::Tensor& whole) { return whole; }}}}); },
                ThrowsMessage<ConfigError>("[shard_fns] LlamaForCausalLM has no parameter \"lm_head\"."));
  });
}

TEST_F(LoadOnMesh, AppliesFunctionsOnOneDeviceToo) {
  const auto model = load({.shard_fns = {{"lm_head.weight", [](const at::Tensor& whole) { return whole * 3; }}}});
  EXPECT_TRUE(at::equal(model->params().at("lm_head.weight"), tiny_llama()->params().at("lm_head.weight") * 3));
}

TEST_F(LoadOnMesh, DrawsAFreshHeadAsOneDeviceDoes) {
  log::set_sink([](log::Level, const std::string&) {});
  const auto one = load<AutoModelForSequenceClassification>({.rngs = RandomKey(3)});
  on_mesh({1, 2, 1, 1, 2}, [&](const Mesh&, World&) {
    const auto model =
        load<AutoModelForSequenceClassification>({.sharding = {.axis_dims = {1, 2, 1, 1, 2}}, .rngs = RandomKey(3)});
    for (const auto& [path, parameter] : model->named_parameters()) {
      if (path != "score.weight") continue;
      EXPECT_THAT(parameter->value().sizes(), ElementsAre(2, 4));
      EXPECT_TRUE(at::equal(parameter->whole(), one->params().at(path)));
    }
  });
  log::set_sink({});
}

TEST_F(LoadOnMesh, SaysOnEveryRankWhatIsMissing) {
  std::filesystem::remove(directory_ / "model.safetensors");
  auto smaller = tiny_config();
  smaller.num_hidden_layers = 1;
  make_model<LlamaForCausalLM>(smaller)->save_pretrained(directory_ / "one", {.verbose = false});
  std::filesystem::copy(directory_ / "one/model.safetensors", directory_ / "model.safetensors");
  on_mesh({1, 2, 1, 1, 1}, [&](const Mesh&, World&) {
    EXPECT_THAT([&] { load({}); },
                ThrowsMessage<FormatError>(testing::StartsWith(
                    where() + "the tensors do not match LlamaForCausalLM.\nmissing (9):\n  model.layers.1.")));
  });
}

// Bytes of the file that this process has in its memory through a map.
int64_t mapped_bytes(const std::filesystem::path& file) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  int64_t sum = 0;
  bool inside = false;
  while (std::getline(maps, line)) {
    if (line.find('-') < line.find(' ') && line.find("kB") == std::string::npos)
      inside = line.ends_with(file.filename().string());
    if (inside && line.starts_with("Rss:")) sum += std::stoll(line.substr(4)) * 1024;
  }
  return sum;
}

// A rank of eight, of which only this one runs: reading needs no other.
TEST_F(LoadOnMesh, NeverHoldsMoreThanItsOwnPart) {
  LlamaConfig config = tiny_config();
  config.vocab_size = 8192;
  config.hidden_size = 256;
  config.intermediate_size = 1024;
  const TemporaryDirectory directory(memory_directory());  // whose pages are small
  make_model<LlamaForCausalLM>(config)->save_pretrained(directory.path(), {.verbose = false});
  const auto file = directory / "model.safetensors";
  const auto whole = static_cast<int64_t>(std::filesystem::file_size(file));

  // Rows over the eight ranks, which stay in the map; and by the config's rules columns, which are copied out of it.
  for (const bool rows : {true, false}) {
    const WorldScope scope(planned_world(8, 5));
    LoadOptions options{.sharding = {.axis_dims = {1, 8, 1, 1, 1}, .auto_shard_model = true}, .verbose = false};
    if (rows) options.partition_rules = PartitionRules{{"proj|embed|lm_head", {"fsdp"}}, {".*", {}}};
    std::shared_ptr<BaseModule> model;
    const MemoryUse use =
        memory_use([&] { model = AutoModelForCausalLM::from_pretrained(directory.path().string(), options); });
    int64_t stored = 0, largest = 0;
    for (const auto& [path, tensor] : model->params()) {
      EXPECT_EQ(tensor.sum().item<double>(), tensor.sum().item<double>());  // looks at every element
      stored += tensor.numel() * 4;
      largest = std::max<int64_t>(largest, tensor.numel() * 4);
    }
    EXPECT_LT(stored, whole / 7);
    EXPECT_LE(use.held, stored);
    EXPECT_LE(use.peak, stored + largest);
    if (rows) {
      EXPECT_LT(use.held + mapped_bytes(file), whole / 4);  // a page fault brings 64 KiB around what was asked for
    }
  }
}

}  // namespace
}  // namespace easydel
