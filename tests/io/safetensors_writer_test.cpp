#include "easydel/io/safetensors/safetensors_writer.h"

#include <gmock/gmock.h>

#include <optional>
#include <random>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/safetensors/safetensors.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/killed_child.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

TEST(SaveSafetensors, AsksForOneTensorAtATimeInTheOrderOfTheFile) {
  const TemporaryDirectory directory;
  std::vector<std::string> asked;
  std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>> last;
  const std::vector<TensorInfo> infos = {{.name = "b", .dtype = float16, .shape = {2}},
                                         {.name = "a", .dtype = float16, .shape = {3}},
                                         {.name = "c", .dtype = float32, .shape = {5}}};
  save_safetensors(directory / "f", infos, [&](const TensorInfo& info) {
    EXPECT_TRUE(!last || last->expired()) << "the tensor before " << info.name << " is still alive";
    asked.push_back(info.name);
    at::Tensor tensor = at::full(info.shape, static_cast<double>(asked.size()), info.dtype);
    last.emplace(tensor.getIntrusivePtr());
    return tensor;
  });
  EXPECT_THAT(asked, ElementsAre("c", "a", "b"));
  EXPECT_EQ(SafetensorsFile::open(directory / "f")->tensor("b").sum().item<double>(), 6);
}

TEST(SaveSafetensors, WritesStridedAndConjugatedTensorsByValue) {
  const TemporaryDirectory directory;
  const at::Tensor matrix = at::randn({3, 4});
  const at::Tensor complex = at::randn({4}, at::kComplexFloat);
  save_safetensors(directory / "f", {{"t", matrix.t()},
                                     {"step", matrix.slice(1, 0, 4, 2)},
                                     {"conj", complex.conj()},
                                     {"expanded", at::ones({1}).expand({7})},
                                     {"grad", at::ones({2}).requires_grad_()}});
  const auto file = SafetensorsFile::open(directory / "f");
  EXPECT_TRUE(at::equal(file->tensor("t"), matrix.t()));
  EXPECT_TRUE(at::equal(file->tensor("step"), matrix.slice(1, 0, 4, 2)));
  EXPECT_TRUE(at::equal(file->tensor("conj"), complex.conj().resolve_conj()));
  EXPECT_TRUE(at::equal(file->tensor("expanded"), at::ones({7})));
}

TEST(SaveSafetensors, WritesNoMetadataWhenThereIsNone) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "f", NamedTensors{}, {});
  EXPECT_EQ(read_file(directory / "f"), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST(SaveSafetensors, RejectsWhatTheFormatCannotRepresent) {
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  const std::string where = "[" + path.string() + "] ";
  const auto save = [&](const std::string& name, const at::Tensor& tensor) {
    save_safetensors(path, {{name, tensor}});
  };
  EXPECT_THAT([&] { save("__metadata__", at::ones({1})); },
              ThrowsMessage<ConfigError>(where + "\"__metadata__\" cannot be the name of a tensor."));
  EXPECT_THAT([&] { save("\xff", at::ones({1})); },
              ThrowsMessage<ConfigError>(where + "tensor names must be UTF-8; got \"\\xff\"."));
  EXPECT_THAT([&] { save_safetensors(path, {{"x", at::ones({1})}, {"x", at::ones({1})}}); },
              ThrowsMessage<ConfigError>(where + "tensor names must be unique; got \"x\" twice."));
  EXPECT_THAT([&] { save_safetensors(path, NamedTensors{}, {{"k", "\xff"}}); },
              ThrowsMessage<ConfigError>(where + "metadata must be UTF-8; got \"k\": \"\xff\"."));
  EXPECT_THAT([&] { save("x", at::ones({1}, at::kComplexDouble)); },
              ThrowsMessage<NotSupportedError>(
                  "[safetensors] the format has no type for ComplexDouble. Convert the tensor before saving it."));
  EXPECT_THAT([&] { save("x", at::ones({2, 2}).to_sparse()); },
              ThrowsMessage<NotSupportedError>(
                  where + "tensor \"x\" is Sparse; safetensors stores dense tensors only. Call to_dense() first."));
  EXPECT_THAT([&] { save("x", at::empty({2}, at::kMeta)); },
              ThrowsMessage<NotSupportedError>(where + "tensor \"x\" is on the meta device and has no data."));
  EXPECT_THAT([&] { save("x", at::ones({1}, at::kByte).view(at::kFloat4_e2m1fn_x2).squeeze(0)); },
              ThrowsMessage<NotSupportedError>(
                  where + "tensor \"x\" is a scalar of two packed values, which the format cannot represent."));
  EXPECT_THAT(
      [&] {
        save_safetensors(path, {{.name = "x", .dtype = float32, .shape = {2}}},
                         [](const TensorInfo&) { return at::ones({3}); });
      },
      ThrowsMessage<ShapeError>(where + "tensor \"x\" was announced as Float [2]; got Float [3]."));
  EXPECT_THAT(list_directory(directory.path()), ElementsAre());
}

TEST(SaveSafetensors, LeavesTheOldFileWhenTheDiskIsFull) {
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  save_safetensors(path, {{"x", at::ones({10})}});
  {
    const FileSizeLimit limit(1 << 20);
    EXPECT_THAT([&] { save_safetensors(path, {{"x", at::zeros({1 << 20})}}); },
                ThrowsMessage<IoError>("[" + path.string() +
                                       "] cannot be written after 1048576 bytes: File too large. "
                                       "The previous content is untouched."));
  }
  EXPECT_TRUE(at::equal(SafetensorsFile::open(path)->tensor("x"), at::ones({10})));
  EXPECT_THAT(list_directory(directory.path()), ElementsAre("f"));
}

TEST(SaveSafetensors, LeavesTheOldFileOrTheNewOneWhenKilledAtAnySystemCall) {
  const TemporaryDirectory directory(memory_directory());
  const auto path = directory / "f";
  const at::Tensor old_values = at::full({1000}, 1.0f);
  const at::Tensor new_values = at::full({1000}, 2.0f);
  bool was_old = false;
  bool was_new = false;
  for (int call = 0;; ++call) {
    save_safetensors(path, {{"x", old_values}});
    const ChildEnd end = run_until_system_call(call, [&] { save_safetensors(path, {{"x", new_values}}); });
    if (end == ChildEnd::NoTracing) GTEST_SKIP() << "this system does not allow tracing";
    const at::Tensor found = SafetensorsFile::open(path)->tensor("x");
    was_old |= at::equal(found, old_values);
    was_new |= at::equal(found, new_values);
    ASSERT_TRUE(at::equal(found, old_values) || at::equal(found, new_values)) << "killed at system call " << call;
    if (end == ChildEnd::Finished) break;
  }
  EXPECT_TRUE(was_old && was_new);
}

TEST(SaveSafetensors, SurvivesKillsAtRandomMoments) {
  const TemporaryDirectory directory;
  const auto path = directory / "f";
  const at::Tensor values[] = {at::full({100'000}, 1.0f), at::full({100'000}, 2.0f)};
  save_safetensors(path, {{"x", values[0]}});
  std::mt19937 random(4);
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0;; ++i) save_safetensors(path, {{"x", values[i % 2]}});
    }
    ::usleep(random() % 10'000);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const at::Tensor found = SafetensorsFile::open(path)->tensor("x");
    ASSERT_TRUE(at::equal(found, values[0]) || at::equal(found, values[1])) << "round " << round;
  }
  save_safetensors(path, {{"x", values[1]}});
  EXPECT_TRUE(at::equal(SafetensorsFile::open(path)->tensor("x"), values[1]));
}

}  // namespace
}  // namespace easydel
