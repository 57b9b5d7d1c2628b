#include "easydel/io/torch/torch_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/files/file.h"
#include "tests/io/pickle_builder.h"
#include "tests/io/zip_builder.h"

namespace easydel {
namespace {

using pickled::Tensor;
using testing::ElementsAre;
using testing::ThrowsMessage;

// An archive with this pickle and a storage of six floats.
std::string archive_of(const std::string& value, const std::vector<ZipPart>& more = {}) {
  std::vector<ZipPart> parts = {{"archive/data.pkl", pickled::whole(value)}, {"archive/data/0", std::string(24, '\0')}};
  parts.insert(parts.end(), more.begin(), more.end());
  return make_zip(parts).bytes;
}

std::string archive_of(const Tensor& tensor) {
  return archive_of(pickled::dict({pickled::text("w"), pickled::rebuild(tensor)}));
}

std::vector<TorchTensor> read(const std::string& bytes) {
  return TorchArchive(std::as_bytes(std::span(bytes)), "x.bin").tensors();
}

template <class E = FormatError>
void expect_refused(const std::string& bytes, const std::string& message) {
  EXPECT_THAT([&] { read(bytes); }, ThrowsMessage<E>("[x.bin] " + message));
}

std::string read_archive_seed(const std::string& name) {
  return read_file(std::string(std::getenv("EASYDEL_SOURCE_DIR")) + "/tests/fuzz/corpus/torch_archive/" + name);
}

TEST(TorchArchive, ListsItsTensors) {
  const std::vector<TorchTensor> tensors = read(archive_of(Tensor{.offset = 1, .size = {1, 3}, .stride = {0, 2}}));
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].info.name, "w");
  EXPECT_EQ(tensors[0].info.dtype, float32);
  EXPECT_EQ(tensors[0].info.stored_as, "float32");
  EXPECT_EQ(tensors[0].info.nbytes, 12);
  EXPECT_THAT(tensors[0].info.shape, ElementsAre(1, 3));
  EXPECT_THAT(tensors[0].strides, ElementsAre(0, 2));
  EXPECT_EQ(tensors[0].storage_offset, 1);
  EXPECT_EQ(tensors[0].storage, 1u);
}

TEST(TorchArchive, CountsAnExpandedTensorOnce) {
  EXPECT_EQ(read(archive_of(Tensor{.size = {1000, 1000}, .stride = {0, 0}}))[0].info.nbytes, 4);
}

TEST(TorchArchive, DetectsTiedTensors) {
  const auto entry = [](const std::string& name, const Tensor& tensor) {
    return pickled::text(name) + pickled::rebuild(tensor);
  };
  const auto tensors = read(archive_of(
      pickled::dict({entry("embed", {}), entry("head", {}), entry("turned", {.stride = {1, 2}}),
                     entry("shaped", {.size = {3, 2}, .stride = {2, 1}}), entry("part", {.offset = 3, .size = {1, 3}}),
                     entry("none", {.size = {0, 3}}), entry("none too", {.size = {0, 3}})})));
  std::vector<std::string> ties;
  for (const TorchTensor& tensor : tensors) ties.push_back(tensor.info.tied_to);
  EXPECT_THAT(ties, ElementsAre("", "embed", "", "", "", "", ""));
}

TEST(TorchArchive, ReadsTheOldestAndTheNewestFunction) {
  pickled::Items arguments = pickled::arguments(Tensor{});
  arguments.resize(4);
  EXPECT_EQ(
      read(archive_of(pickled::dict(
               {pickled::text("w"), pickled::call(pickled::global("torch._utils", "_rebuild_tensor"), arguments)})))
          .size(),
      1u);
  arguments = pickled::arguments(Tensor{.size = {12}, .stride = {1}});
  arguments.push_back(pickled::global("torch", "uint16"));  // a storage may be read as another type
  const auto tensors = read(archive_of(pickled::dict(
      {pickled::text("w"), pickled::call(pickled::global("torch._utils", "_rebuild_tensor_v3"), arguments)})));
  EXPECT_EQ(tensors[0].info.dtype, uint16);
}

TEST(TorchArchive, FindsTheStateDictUnderItsUsualNames) {
  const std::string tensors = pickled::dict({pickled::text("w"), pickled::rebuild({})});
  for (const char* wrapper : {"state_dict", "model_state_dict", "model", "module"}) {
    const auto found =
        read(archive_of(pickled::dict({pickled::text("epoch"), pickled::number(3), pickled::text(wrapper), tensors})));
    EXPECT_EQ(found.at(0).info.name, "w") << wrapper;
  }
  const std::string twice = pickled::dict({pickled::text("model"), pickled::dict({pickled::text("module"), tensors})});
  EXPECT_EQ(read(archive_of(twice)).at(0).info.name, "w");
}

TEST(TorchArchive, IgnoresValuesThatAreNotTensors) {
  const std::string mixed =
      pickled::dict({pickled::text("w"), pickled::rebuild({}), pickled::text("epoch"), pickled::number(3),
                     pickled::text("more"), pickled::dict({pickled::text("v"), pickled::rebuild({})})});
  EXPECT_EQ(read(archive_of(mixed)).size(), 1u);
}

TEST(TorchArchive, RejectsFilesWithoutAStateDict) {
  expect_refused(archive_of("]"), "must contain a state dict, a dict of tensors; got a list.");
  expect_refused(archive_of(pickled::rebuild({})), "must contain a state dict, a dict of tensors; got one tensor.");
  expect_refused(
      archive_of(pickled::dict({pickled::text("encoder"), pickled::dict({pickled::text("w"), pickled::rebuild({})}),
                                pickled::number(1), "N"})),
      "contains no state dict: none of \"encoder\", an int is a tensor.");
  expect_refused(archive_of(pickled::dict({pickled::number(1), pickled::rebuild({})})),
                 "the keys of a state dict must be str; got an int.");
  EXPECT_TRUE(read(archive_of("}")).empty());
}

TEST(TorchArchive, RefusesACycleOfWrappers) {
  expect_refused(archive_of("}q\x01X\x05" + std::string("\0\0\0modelh\1s", 11)),
                 "contains no state dict: none of \"model\" is a tensor.");
}

TEST(TorchArchive, RejectsDuplicateNames) {
  const std::string w = pickled::text("w"), tensor = pickled::rebuild({});
  expect_refused(archive_of(pickled::dict({w, tensor, pickled::text("v"), tensor, w, tensor})),
                 "tensor \"w\" appears twice.");
}

TEST(TorchArchive, RefusesToCallAnything) {
  const std::string system = pickled::call(pickled::global("os", "system"), {pickled::text("touch /tmp/pwned")});
  expect_refused(archive_of(pickled::dict({pickled::text("w"), system})),
                 "the pickle calls os.system; only tensors and plain containers are read.");
}

TEST(TorchArchive, RefusesTensorsOutsideTheirStorage) {
  expect_refused(archive_of(Tensor{.size = {2, 4}, .stride = {3, 1}}),
                 "tensor \"w\" extends to element 6 of a storage of 6.");
  expect_refused(archive_of(Tensor{.offset = 1}), "tensor \"w\" extends to element 6 of a storage of 6.");
  expect_refused(archive_of(Tensor{.offset = 6, .size = {}, .stride = {}}),
                 "tensor \"w\" extends to element 6 of a storage of 6.");
  constexpr int64_t kHuge = int64_t{1} << 62;
  expect_refused(archive_of(Tensor{.size = {kHuge, 4}, .stride = {0, 0}}), "tensor \"w\" has a size that overflows.");
  expect_refused(archive_of(Tensor{.size = {5, 1}, .stride = {kHuge, 1}}), "tensor \"w\" has a size that overflows.");
  expect_refused(archive_of(Tensor{.size = {kHuge}, .stride = {0}}), "tensor \"w\" has a size that overflows.");
  expect_refused(archive_of(Tensor{.size = {int64_t{1} << 40}, .stride = {0}}),
                 "tensor \"w\" has 1099511627776 elements in a storage of 6: a stride repeats them. Call contiguous() "
                 "on it before saving.");
  expect_refused(archive_of(Tensor{.offset = -1}),
                 "tensor \"w\" must have a storage offset of non-negative integers; got -1.");
  expect_refused(archive_of(Tensor{.stride = {3, -1}}),
                 "tensor \"w\" must have a stride of non-negative integers; got -1.");
  expect_refused(archive_of(Tensor{.size = {-2, 3}}),
                 "tensor \"w\" must have a size of non-negative integers; got -2.");
}

TEST(TorchArchive, AcceptsAnEmptyTensorWithAnyStrides) {
  EXPECT_EQ(read(archive_of(Tensor{.offset = 100, .size = {0, 5}, .stride = {1000, 1000}}))[0].info.nbytes, 0);
}

TEST(TorchArchive, RefusesTensorsThatAreNotBuiltAsTorchDoes) {
  const auto with = [](std::size_t index, const std::string& value) {
    pickled::Items arguments = pickled::arguments({});
    arguments[index] = value;
    return archive_of(pickled::dict(
        {pickled::text("w"), pickled::call(pickled::global("torch._utils", "_rebuild_tensor_v2"), arguments)}));
  };
  expect_refused(with(0, "N"), "tensor \"w\" has a storage that torch did not write.");
  expect_refused(with(0, pickled::tuple({pickled::text("module")}) + "Q"),
                 "tensor \"w\" has a storage that torch did not write.");
  expect_refused(with(0, pickled::storage({.type = "float32"})),
                 "tensor \"w\" has an element type that torch does not have.");
  expect_refused(with(1, "N"), "tensor \"w\" must have a storage offset of non-negative integers; got None.");
  expect_refused(with(2, "]"), "tensor \"w\" must have a tuple as its size; got a list.");
  expect_refused(with(2, pickled::numbers({6})), "tensor \"w\" has 1 sizes and 2 strides.");
  expect_refused(with(2, pickled::numbers(std::vector<int64_t>(65, 1))),
                 "tensor \"w\" has 65 dimensions; torch allows 64.");
  expect_refused(archive_of(pickled::dict(
                     {pickled::text("w"), pickled::call(pickled::global("torch._utils", "_rebuild_tensor_v2"), {})})),
                 "tensor \"w\" is not built as torch builds tensors.");
  expect_refused(archive_of(pickled::dict(
                     {pickled::text("w"), pickled::call(pickled::global("torch._utils", "_rebuild_parameter"), {})})),
                 "tensor \"w\" is not built as torch builds tensors.");
}

TEST(TorchArchive, RejectsStoragesOfTheWrongSize) {
  expect_refused(archive_of(Tensor{.key = "1"}),
                 "tensor \"w\" has its data in storage \"1\", which is missing from the archive.");
  expect_refused(
      archive_of(Tensor{.key = std::string(1000, 'k')}),
      "tensor \"w\" has its data in storage \"" + std::string(100, 'k') + "\"…, which is missing from the archive.");
  expect_refused(archive_of(Tensor{.count = 7}),
                 "tensor \"w\" has its data in storage \"0\" of 24 bytes; the pickle says 7 elements of 4.");
}

TEST(TorchArchive, RefusesLazilyConjugatedTensors) {
  expect_refused<NotSupportedError>(
      archive_of(Tensor{.metadata = pickled::dict({pickled::text("conj"), "\x88"})}),
      "tensor \"w\" is lazily conjugated or negated. Call resolve_conj() and resolve_neg() on it before saving.");
  EXPECT_EQ(read(archive_of(Tensor{.metadata = "}"})).size(), 1u);
}

TEST(TorchArchive, RefusesWhatOnlyTorchCanRead) {
  expect_refused<NotSupportedError>(read_archive_seed("legacy"),
                                    "is in the format that torch wrote before 1.6. Convert it in Python: "
                                    "torch.save(torch.load(path, weights_only=True), path).");
  expect_refused<NotSupportedError>(read_archive_seed("quantized"),
                                    "tensor \"q\" is quantized. Call dequantize() on it before saving.");
  expect_refused<NotSupportedError>(read_archive_seed("sparse"),
                                    "tensor \"s\" is sparse. Call to_dense() on it before saving.");
  expect_refused<NotSupportedError>(archive_of("}", {{"archive/constants.pkl", "x"}}),
                                    "is a TorchScript program. Save its weights in Python: "
                                    "torch.save(torch.jit.load(path).state_dict(), path).");
  expect_refused<NotSupportedError>(archive_of("}", {{"archive/byteorder", "big"}}),
                                    "was written on a big-endian machine. Load and save it again with torch on a "
                                    "little-endian one.");
  expect_refused(archive_of("}", {{"archive/byteorder", "middle"}}),
                 "has a byteorder that is neither \"little\" nor \"big\".");
}

TEST(TorchArchive, RefusesOtherFiles) {
  expect_refused("", "is not a complete zip archive: it has no end record. It may be truncated.");
  expect_refused("version https://git-lfs.github.com/spec/v1\n",
                 "is a Git LFS pointer, not the file itself. Download it with `git lfs pull`.");
  const std::string no_pickle = "is a zip archive that torch.save did not write: it has no data.pkl.";
  expect_refused(make_zip({}).bytes, no_pickle);
  expect_refused(make_zip({{"data.pkl", "x"}}).bytes, no_pickle);
  expect_refused(make_zip({{"archive/version", "3"}}).bytes, no_pickle);
}

TEST(TorchArchive, RejectsTruncationAtAnyByte) {
  const std::string whole = read_archive_seed("wrapped");
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(read(whole.substr(0, size)), FormatError) << size;
}

}  // namespace
}  // namespace easydel
