#include "easydel/io/safetensors/safetensors.h"

#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/safetensors/safetensors_dtype.h"
#include "easydel/io/safetensors/safetensors_writer.h"
#include "tests/support/resident_bytes.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

at::Tensor random_tensor(at::IntArrayRef shape, DType dtype) {
  const auto element = static_cast<int64_t>(c10::elementSize(dtype));
  const at::Tensor bytes =
      at::randint(dtype == boolean ? 2 : 256, shape.vec().empty() ? at::IntArrayRef{1} : shape, at::kByte)
          .unsqueeze(-1)
          .repeat_interleave(element, -1);
  return bytes.view(dtype).reshape(shape);
}

TEST(SafetensorsFile, RoundTripsEveryDType) {
  const TemporaryDirectory directory;
  NamedTensors tensors;
  for (const SafetensorsDType& dtype : safetensors_dtypes()) {
    tensors.emplace_back(std::string(dtype.name), random_tensor({3, 4}, dtype.dtype));
    tensors.emplace_back(concat(dtype.name, ".empty"), random_tensor({0, 4}, dtype.dtype));
    if (!dtype.is_packed()) tensors.emplace_back(concat(dtype.name, ".scalar"), random_tensor({}, dtype.dtype));
  }
  save_safetensors(directory / "f", tensors);

  const auto file = SafetensorsFile::open(directory / "f");

  ASSERT_EQ(file->infos().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor loaded = file->tensor(name);
    EXPECT_EQ(loaded.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(loaded.sizes(), tensor.sizes()) << name;
    if (tensor.numel() > 0) {
      EXPECT_TRUE(at::equal(loaded.reshape(-1).view(at::kByte), tensor.reshape(-1).view(at::kByte))) << name;
    }
  }
  EXPECT_EQ(file->metadata(), kTorchMetadata);
}

TEST(SafetensorsFile, ListsItsTensorsInTheOrderOfTheData) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "f",
                   {{"b", at::zeros({2}, at::kHalf)}, {"a", at::zeros({3}, at::kHalf)}, {"c", at::zeros({5})}});
  const auto file = SafetensorsFile::open(directory / "f");
  EXPECT_THAT(file->names(), ElementsAre("c", "a", "b"));
  EXPECT_EQ(file->nbytes(), 30);
  EXPECT_EQ(file->where(), (directory / "f").string());
  EXPECT_EQ(file->info("a").stored_as, "F16");
  EXPECT_TRUE(file->contains("a"));
  EXPECT_FALSE(file->contains("d"));
}

TEST(SafetensorsFile, SuggestsTheNameThatWasMeant) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "f", {{"model.norm.weight", at::zeros({2})}, {"lm_head.weight", at::zeros({2})}});
  const auto file = SafetensorsFile::open(directory / "f");
  const std::string where = "[" + (directory / "f").string() + "] ";
  EXPECT_THAT([&] { file->tensor("model.norm.wieght"); },
              ThrowsMessage<FormatError>(
                  where + "no tensor \"model.norm.wieght\" among 2. Did you mean \"model.norm.weight\"?"));
  EXPECT_THAT([&] { file->info("x"); }, ThrowsMessage<FormatError>(where + "no tensor \"x\" among 2."));
}

TEST(SafetensorsFile, NamesAMissingFile) {
  EXPECT_THAT([] { SafetensorsFile::open("/nowhere/f.safetensors"); },
              ThrowsMessage<IoError>("[/nowhere/f.safetensors] cannot be opened: No such file or directory."));
}

TEST(SafetensorsFile, ReturnsViewsThatOutliveItAndTheFile) {
  const TemporaryDirectory directory;
  const at::Tensor saved = at::randn({64, 64});
  save_safetensors(directory / "f", {{"x", saved}});
  auto file = SafetensorsFile::open(directory / "f");
  const at::Tensor first = file->tensor("x");
  const at::Tensor second = file->tensor("x");
  EXPECT_EQ(first.data_ptr(), second.data_ptr());
  file.reset();
  std::filesystem::remove(directory / "f");
  EXPECT_TRUE(at::equal(first, saved));
}

TEST(SafetensorsFile, LetsTensorsBeWrittenToWithoutChangingTheFile) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "f", {{"x", at::ones({1000})}});
  SafetensorsFile::open(directory / "f")->tensor("x").add_(1);
  EXPECT_TRUE(at::equal(SafetensorsFile::open(directory / "f")->tensor("x"), at::ones({1000})));
}

TEST(SafetensorsFile, TouchesOnlyWhatIsRead) {
  const TemporaryDirectory directory;
  constexpr int64_t kColumns = int64_t{2} << 20;
  constexpr int64_t kRow = 4 * kColumns;       // 8 MiB
  constexpr int64_t kPage = int64_t{2} << 20;  // the largest that a system maps around the byte that is touched
  save_safetensors(directory / "f", {{"a", at::ones({8, kColumns})}, {"b", at::ones({4, kColumns})}});

  const auto file = SafetensorsFile::open(directory / "f");
  const at::Tensor whole = file->tensor("b");
  EXPECT_EQ(resident_bytes(directory / "f"), 0);
  EXPECT_EQ(file->slice("a", {3, 0}, {1, kColumns}).sum().item<double>(), kColumns);
  const int64_t after_row = resident_bytes(directory / "f");
  EXPECT_GE(after_row, kRow);
  EXPECT_LE(after_row, kRow + 2 * kPage);
  EXPECT_EQ(file->read_slice("a", {0, 5}, {8, 10}).sum().item<double>(), 80);
  EXPECT_LE(resident_bytes(directory / "f"), after_row + 8 * kPage);
  EXPECT_EQ(whole.sum().item<double>(), 4 * kColumns);
  EXPECT_GE(resident_bytes(directory / "f"), 5 * kRow);
}

TEST(SafetensorsFile, SlicesAsTorchDoes) {
  const TemporaryDirectory directory;
  const at::Tensor saved = at::randn({4, 5, 6}).to(at::kBFloat16);
  save_safetensors(directory / "f", {{"x", saved}, {"scalar", at::ones({})}});
  const auto file = SafetensorsFile::open(directory / "f");
  const at::Tensor expected = saved.narrow(0, 1, 2).narrow(1, 0, 5).narrow(2, 3, 2);

  const at::Tensor view = file->slice("x", {1, 0, 3}, {2, 5, 2});
  const at::Tensor copy = file->read_slice("x", {1, 0, 3}, {2, 5, 2});

  EXPECT_TRUE(at::equal(view, expected));
  EXPECT_EQ(view.data_ptr(), static_cast<char*>(file->tensor("x").data_ptr()) + 2 * (30 + 3));
  EXPECT_TRUE(at::equal(copy, expected));
  EXPECT_TRUE(copy.is_contiguous());
  EXPECT_EQ(file->slice("x", {4, 0, 0}, {0, 5, 6}).sizes(), (at::IntArrayRef{0, 5, 6}));
  EXPECT_TRUE(at::equal(file->slice("scalar", {}, {}), at::ones({})));
}

TEST(SafetensorsFile, RejectsSlicesOutsideTheTensor) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "f", {{"x", at::zeros({4, 5})}});
  const auto file = SafetensorsFile::open(directory / "f");
  const std::string rule =
      "[" + (directory / "f").string() + "] a slice of \"x\" must be inside its shape [4, 5]; got ";
  EXPECT_THAT([&] { file->slice("x", {0, 3}, {4, 3}); },
              ThrowsMessage<ShapeError>(rule + "starts [0, 3] and sizes [4, 3]."));
  EXPECT_THAT([&] { file->slice("x", {-1, 0}, {1, 1}); },
              ThrowsMessage<ShapeError>(rule + "starts [-1, 0] and sizes [1, 1]."));
  EXPECT_THAT([&] { file->slice("x", {0, 0}, {1, -1}); },
              ThrowsMessage<ShapeError>(rule + "starts [0, 0] and sizes [1, -1]."));
  EXPECT_THAT([&] { file->slice("x", {0}, {1}); }, ThrowsMessage<ShapeError>(rule + "starts [0] and sizes [1]."));
  EXPECT_THAT([&] { file->slice("x", {1, 0}, {INT64_MAX, 5}); },
              ThrowsMessage<ShapeError>(rule + "starts [1, 0] and sizes [9223372036854775807, 5]."));
}

// Old writers did not pad the header, and a file may store a byte before a float.
TEST(SafetensorsFile, CopiesDataThatIsNotAligned) {
  const TemporaryDirectory directory;
  const at::Tensor saved = at::arange(12, at::kFloat).reshape({3, 4});
  for (std::size_t padding = 0; padding < 8; ++padding) {
    std::string file(8, '\0');
    const std::string json = R"({"x":{"dtype":"F32","shape":[3,4],"data_offsets":[0,48]}})" + std::string(padding, ' ');
    file[0] = static_cast<char>(json.size());
    file += json;
    file.append(static_cast<const char*>(saved.data_ptr()), 48);
    write_file_atomically(directory / "f", file);

    const auto opened = SafetensorsFile::open(directory / "f");
    const at::Tensor loaded = opened->tensor("x");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(loaded.data_ptr()) % 4, 0) << padding;
    EXPECT_TRUE(at::equal(loaded, saved)) << padding;
    EXPECT_TRUE(at::equal(opened->slice("x", {1, 2}, {2, 1}), saved.narrow(0, 1, 2).narrow(1, 2, 1))) << padding;
  }
}

}  // namespace
}  // namespace easydel
