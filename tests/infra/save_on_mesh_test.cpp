// A model saved by all ranks of a mesh: the files of one device, and what happens when they cannot be written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/io/hub/hub_push.h"
#include "tests/infra/on_mesh.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/hub_fixture.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::vector<int64_t> kEight{1, 4, 1, 2, 1};

std::unique_ptr<BaseConfig> small_config(const std::string& family) {
  Json dict = Json::object({{"model_type", family}, {"vocab_size", 29}});
  if (family == "gpt2") {
    for (const auto& [key, value] : {std::pair("n_embd", 12), {"n_head", 3}, {"n_layer", 2}, {"n_positions", 16}})
      dict[key] = value;
  } else {
    for (const auto& [key, value] : {std::pair("hidden_size", 12),
                                     {"intermediate_size", 10},
                                     {"num_hidden_layers", 2},
                                     {"num_attention_heads", 3},
                                     {"num_key_value_heads", 1},
                                     {"pad_token_id", 0}})
      dict[key] = value;
  }
  if (family == "mixtral") dict["num_local_experts"] = 3;
  return AutoConfig::from_dict(dict);
}

TEST(SaveOnMesh, WritesTheBytesOfOneDevice) {
  for (const std::string family : {"gpt2", "llama", "mixtral", "phi3"}) {
    SCOPED_TRACE(family);
    const TemporaryDirectory directory;
    const auto config = small_config(family);
    AutoModelForCausalLM::from_config(*config)->save_pretrained(directory / "one", {.verbose = false});
    on_mesh(kEight, [&](const Mesh& mesh, World&) {
      const auto model = AutoModelForCausalLM::from_config(*config);
      model->shard_model({}, mesh);
      model->save_pretrained(directory / "mesh", {.verbose = false});
    });
    for (const char* name : {"config.json", "model.safetensors"})
      EXPECT_EQ(read_file(directory / "mesh" / name), read_file(directory / "one" / name)) << name;

    // And on another mesh again.
    on_mesh({2, 1, 1, 1, 2}, [&](const Mesh& mesh, World&) {
      const auto model = AutoModelForCausalLM::from_pretrained(
          (directory / "mesh").string(),
          {.sharding = {.axis_dims = {2, 1, 1, 1, 2}, .auto_shard_model = true}, .verbose = false});
      EXPECT_EQ(model->mesh(), mesh);
      model->save_pretrained(directory / "again", {.verbose = false});
    });
    EXPECT_EQ(read_file(directory / "again/model.safetensors"), read_file(directory / "one/model.safetensors"));
  }
}

TEST(SaveOnMesh, HoldsOneWholeParameterAtATime) {
  const TemporaryDirectory directory;
  LlamaConfig config = tiny_config();
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.num_hidden_layers = 8;
  on_mesh(kEight, [&](const Mesh& mesh, World&) {
    const auto model = make_model<LlamaForCausalLM>(config);
    model->shard_model({}, mesh);
    const int64_t largest = 128 * 64 * 4;
    // What comes from the others, and the same in order.
    EXPECT_LE(peak_bytes([&] { model->save_pretrained(directory.path(), {.verbose = false}); }), 5 * largest / 2);
    EXPECT_GT(model->num_params() * 4, 20 * largest);
  });
}

TEST(SaveOnMesh, ThrowsTheErrorOfRankZeroWhenTheDiskIsFull) {
  const TemporaryDirectory directory;
  const fs::path target = directory / "model";
  std::atomic<int> told{0};
  const auto run = [&] {
    on_mesh(kEight, [&](const Mesh& mesh, World& world) {
      const auto model = tiny_llama();
      model->shard_model({}, mesh);
      try {
        model->save_pretrained(target, {.verbose = false});
      } catch (const DistributedError& error) {
        EXPECT_NE(world.rank(), 0);
        told += std::string(error.what()) == "[save_pretrained] rank 0 could not save; its error says why.";
        throw;
      }
    });
  };
  {
    const FileSizeLimit full(2000);
    EXPECT_THAT(run, ThrowsMessage<IoError>(testing::AllOf(testing::StartsWith("rank 0: ["), HasSubstr(target.string()),
                                                           HasSubstr("File too large"))));
  }
  EXPECT_EQ(told, 7);
  EXPECT_FALSE(fs::exists(target / "model.safetensors"));
  told = 0;
  run();  // with space again
  EXPECT_TRUE(fs::exists(target / "model.safetensors"));
}

TEST(SaveOnMesh, ThrowsTheErrorOfRankZeroWhenTheDirectoryCannotBeMade) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "file", "in the way");
  for (int round = 0; round < 20; ++round) {  // whichever rank is first to end
    EXPECT_THAT(
        [&] {
          on_mesh(kEight, [&](const Mesh& mesh, World&) {
            const auto model = tiny_llama();
            model->shard_model({}, mesh);
            model->save_pretrained(directory / "file/model", {.verbose = false});
          });
        },
        ThrowsMessage<IoError>(
            concat("rank 0: [", (directory / "file/model").string(), "] cannot be created: Not a directory.")));
  }
}

TEST(SaveOnMesh, LeavesTheRanksAbleToGoOn) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "file", "in the way");
  on_mesh({1, 2, 1, 2, 1}, [&](const Mesh& mesh, World&) {
    const auto model = tiny_llama();
    model->shard_model({}, mesh);
    EXPECT_THROW(model->save_pretrained(directory / "file/model", {.verbose = false}), Error);
    model->save_pretrained(directory / "other", {.verbose = false});
  });
  EXPECT_TRUE(fs::exists(directory / "other/model.safetensors"));
}

TEST(SaveOnMesh, RefusesAParameterOfAnotherDtype) {
  const TemporaryDirectory directory;
  const auto run = [&] {
    on_mesh({1, 2, 1, 1, 1}, [&](const Mesh& mesh, World&) {
      const auto model = tiny_llama();
      model->shard_model({}, mesh);
      model->merge_params({{"model.norm.weight", at::ones({16}, bfloat16)}});
      model->save_pretrained(directory.path(), {.mismatch_allowed = false, .verbose = false});
    });
  };
  EXPECT_THAT(run, ThrowsMessage<ConfigError>("rank 0: [save_pretrained] \"model.norm.weight\" is bfloat16, but the "
                                              "module stores float32."));
}

TEST(SaveOnMesh, APushThatFailsBeforeItSavesDoesNotKeepTheOthersWaiting) {
  const TemporaryDirectory home;
  const ScopedVariable token("HF_TOKEN", std::nullopt), path("HF_HOME", home.path().string());
  const auto start = std::chrono::steady_clock::now();
  const auto run = [] {
    on_mesh({1, 2, 1, 2, 1}, [](const Mesh& mesh, World&) {
      const auto model = tiny_llama();
      model->shard_model({}, mesh);
      model->push_to_hub("org/tiny");
    });
  };
  EXPECT_THAT(run, ThrowsMessage<Error>(testing::AllOf(testing::StartsWith("rank 0: "), HasSubstr("token"))));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
}

}  // namespace
}  // namespace easydel
