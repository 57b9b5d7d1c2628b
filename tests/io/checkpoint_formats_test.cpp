#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/files/file.h"
#include "easydel/io/checkpoint.h"
#include "easydel/io/safetensors/safetensors_writer.h"
#include "tests/io/gguf_builder.h"
#include "tests/io/pickle_builder.h"
#include "tests/io/zip_builder.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ElementsAre;

// What torch.save({name: torch.zeros(2, 3)}) would write.
std::string torch_file_with(const std::string& name) {
  const std::string dict = pickled::dict({pickled::text(name), pickled::rebuild({})});
  return make_zip({{"archive/data.pkl", pickled::whole(dict)}, {"archive/data/0", std::string(24, '\0')}}).bytes;
}

TEST(CheckpointFormats, ReadsPytorchModelBinAndItsShards) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "pytorch_model-00001-of-00002.bin", torch_file_with("x"));
  write_file_atomically(directory / "pytorch_model-00002-of-00002.bin", torch_file_with("y"));
  write_file_atomically(directory / "pytorch_model.bin.index.json",
                        R"({"weight_map": {"x": "pytorch_model-00001-of-00002.bin",
                                           "y": "pytorch_model-00002-of-00002.bin"}})");
  const auto sharded = Checkpoint::open(directory.path());
  EXPECT_THAT(sharded->names(), ElementsAre("x", "y"));
  EXPECT_TRUE(at::equal(sharded->tensor("y"), at::zeros({2, 3})));

  write_file_atomically(directory / "pytorch_model.bin", torch_file_with("single"));
  EXPECT_THAT(Checkpoint::open(directory.path())->names(), ElementsAre("single"));

  save_safetensors(directory / "model.safetensors", {{"safe", at::ones({1})}});
  EXPECT_THAT(Checkpoint::open(directory.path())->names(), ElementsAre("safe"));
}

TEST(CheckpointFormats, ReadsTheOtherNamesOfTorchFiles) {
  const TemporaryDirectory directory;
  for (const char* name : {"x.pt", "x.pth"}) {
    write_file_atomically(directory / name, torch_file_with(name));
    EXPECT_THAT(Checkpoint::open(directory / name)->names(), ElementsAre(name));
  }
}

TEST(CheckpointFormats, ReadsASingleGguf) {
  const TemporaryDirectory directory;
  const GgufBytes file = GgufBytes().header(1, 0).tensor("token_embd.weight", {32, 2}, 8, 0).data(68);
  write_file_atomically(directory / "model-Q8_0.gguf", file.text());
  const auto checkpoint = Checkpoint::open(directory.path());
  EXPECT_EQ(checkpoint->info("token_embd.weight").stored_as, "Q8_0");
  EXPECT_TRUE(at::equal(checkpoint->tensor("token_embd.weight"), at::zeros({2, 32})));
}

}  // namespace
}  // namespace easydel
