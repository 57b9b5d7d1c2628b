#include "easydel/io/read_view.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/checkpoint.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/io/safetensors/safetensors_writer.h"
#include "tests/support/resident_bytes.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

constexpr int64_t kLongRow = (int64_t{1} << 18) + 1;  // floats: just over the minimum that bypasses the map

TEST(ReadView, CopiesWhatTorchWouldAndLeavesTheMapAlone) {
  const TemporaryDirectory directory;
  const at::Tensor saved = at::randn({3, 4, kLongRow});
  save_safetensors(directory / "f", {{"before", at::ones({5})}, {"x", saved}, {"scalar", at::full({}, 7.0f)}});
  const auto file = SafetensorsFile::open(directory / "f");

  EXPECT_TRUE(at::equal(file->read("x"), saved));
  EXPECT_TRUE(at::equal(file->read("before"), at::ones({5})));
  EXPECT_TRUE(at::equal(file->read("scalar"), at::full({}, 7.0f)));
  EXPECT_TRUE(at::equal(file->read_slice("x", {1, 0, 0}, {2, 4, kLongRow}), saved.narrow(0, 1, 2)));
  EXPECT_TRUE(at::equal(file->read_slice("x", {0, 1, 0}, {3, 2, kLongRow}), saved.narrow(1, 1, 2)));
  EXPECT_TRUE(at::equal(file->read_slice("x", {0, 3, 0}, {3, 1, kLongRow}), saved.narrow(1, 3, 1)));
  EXPECT_EQ(file->read_slice("x", {0, 4, 0}, {3, 0, kLongRow}).sizes(), (at::IntArrayRef{3, 0, kLongRow}));
  EXPECT_EQ(resident_bytes(directory / "f"), 0);

  EXPECT_TRUE(at::equal(file->read_slice("x", {0, 0, 9}, {3, 4, 10}), saved.narrow(2, 9, 10)));  // short runs
  EXPECT_GT(resident_bytes(directory / "f"), 0);
}

TEST(ReadView, FillsAnyTensorOfTheShape) {
  const TemporaryDirectory directory;
  const at::Tensor saved = at::randn({4, kLongRow});
  save_safetensors(directory / "f", {{"x", saved}});
  const auto file = SafetensorsFile::open(directory / "f");
  const at::Tensor view = file->tensor("x");

  const at::Tensor stack = at::zeros({2, 4, kLongRow});
  file->copy(view, stack[1]);
  EXPECT_TRUE(at::equal(stack[1], saved));
  EXPECT_EQ(stack[0].abs().max().item<float>(), 0);

  const at::Tensor half = at::empty({4, kLongRow}, at::kBFloat16);
  file->copy(view, half);
  EXPECT_TRUE(at::equal(half, saved.to(at::kBFloat16)));

  const at::Tensor turned = at::empty({kLongRow, 4}).t();
  file->copy(view, turned);
  EXPECT_TRUE(at::equal(turned, saved));

  const at::Tensor other = at::randn({4, kLongRow});  // no view at all
  file->copy(other, stack[0]);
  EXPECT_TRUE(at::equal(stack[0], other));
}

TEST(ReadView, TakesManyThreads) {
  const TemporaryDirectory directory;
  const at::Tensor saved = at::randint(256, {7, 3, 1 << 20}, at::kByte);
  save_safetensors(directory / "f", {{"x", saved}});
  const auto file = SafetensorsFile::open(directory / "f");
  const int threads = at::get_num_threads();
  at::set_num_threads(4);
  const at::Tensor read = file->read_slice("x", {0, 1, 0}, {7, 2, 1 << 20});
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(read, saved.narrow(1, 1, 2)));
}

TEST(ReadView, StillHasTheOldFileWhenThereIsANewOne) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "f", {{"x", at::ones({kLongRow})}});
  const auto file = SafetensorsFile::open(directory / "f");
  save_safetensors(directory / "f", {{"x", at::zeros({kLongRow})}});
  EXPECT_TRUE(at::equal(file->read("x"), at::ones({kLongRow})));
  std::filesystem::remove(directory / "f");
  EXPECT_TRUE(at::equal(file->read("x"), at::ones({kLongRow})));
}

TEST(ReadView, ReportsATruncatedFile) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "f", {{"x", at::ones({1000})}});
  const auto file = SafetensorsFile::open(directory / "f");
  const auto size = std::filesystem::file_size(directory / "f");
  std::filesystem::resize_file(directory / "f", size - 100);
  EXPECT_THAT([&] { file->read("x"); },
              ThrowsMessage<IoError>(concat("[", (directory / "f").string(), "] ends at byte ", size - 100,
                                            ", before the last requested byte, ", size - 1,
                                            ". It was truncated while being read.")));
}

TEST(ReadView, FindsTheFileOfACheckpoint) {
  const TemporaryDirectory directory;
  const at::Tensor x = at::randn({3, kLongRow}), y = at::randn({2, kLongRow});
  save_safetensors(directory / "a.safetensors", {{"x", x}});
  save_safetensors(directory / "b.safetensors", {{"y", y}});
  write_file_atomically(directory / "model.safetensors.index.json",
                        R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors"}})");
  const auto checkpoint = Checkpoint::open(directory.path());
  EXPECT_TRUE(at::equal(checkpoint->read("x"), x));
  const at::Tensor out = at::empty({kLongRow});
  checkpoint->copy(checkpoint->tensor("y")[1], out);
  EXPECT_TRUE(at::equal(out, y[1]));
  EXPECT_EQ(resident_bytes(directory / "a.safetensors") + resident_bytes(directory / "b.safetensors"), 0);
}

TEST(Fetch, ReadsAnEntireTensorIntoMemory) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "f", {{"x", at::ones({3, kLongRow})}});
  const auto file = SafetensorsFile::open(directory / "f");
  fetch(file->tensor("x"));
  EXPECT_GE(resident_bytes(directory / "f"), 12 * kLongRow);
  fetch(at::empty({0, 3}));  // nothing to do
}

}  // namespace
}  // namespace easydel
