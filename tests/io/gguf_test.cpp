#include "easydel/io/gguf/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "tests/io/gguf_builder.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

constexpr uint32_t kF32 = 0, kQ4_0 = 2;
constexpr uint32_t kUInt8 = 0, kUInt32 = 4, kBool = 7, kString = 8, kArray = 9;

GgufContainer parse(const GgufBytes& file) { return GgufContainer(std::as_bytes(std::span(file.text())), "x.gguf"); }

template <class E = FormatError>
void expect_gguf_refused(const GgufBytes& file, const std::string& message) {
  EXPECT_THAT([&] { parse(file); }, ThrowsMessage<E>("[x.gguf] " + message));
}

TEST(GgufContainer, ReadsAnEmptyFile) {
  for (const uint32_t version : {2, 3}) {
    const GgufBytes file = GgufBytes().header(0, 0, version);
    EXPECT_EQ(parse(file).version(), version);
    EXPECT_TRUE(parse(file).tensors().empty());
  }
}

TEST(GgufContainer, ReversesShapes) {
  const GgufBytes file =
      GgufBytes().header(2, 0).tensor("a", {64, 3, 2}, kQ4_0, 0).tensor("s", {}, kF32, 224).data(256);
  const GgufContainer container = parse(file);
  const TensorInfo& a = container.tensors()[0].info;
  EXPECT_THAT(a.shape, testing::ElementsAre(2, 3, 64));
  EXPECT_EQ(a.stored_as, "Q4_0");
  EXPECT_EQ(a.dtype, float32);
  EXPECT_EQ(a.nbytes, 2 * 3 * 2 * 18);
  EXPECT_EQ(a.offset, 128);
  EXPECT_TRUE(container.tensors()[1].info.shape.empty());
  EXPECT_EQ(container.tensors()[1].info.nbytes, 4);
}

TEST(GgufContainer, UsesTheAlignmentOfTheFile) {
  const GgufBytes file = GgufBytes()
                             .header(2, 1)
                             .string("general.alignment")
                             .put(kUInt32)
                             .put<uint32_t>(8)
                             .tensor("a", {1}, kF32, 0)
                             .tensor("b", {1}, kF32, 8)
                             .data(12, 8);
  EXPECT_EQ(parse(file).tensors()[1].info.offset, static_cast<int64_t>(file.text().size()) - 4);
}

TEST(GgufContainer, RejectsTruncationAtAnyByte) {
  const GgufBytes file = GgufBytes()
                             .header(1, 1)
                             .string("key")
                             .put(kArray)
                             .put(kString)
                             .put<uint64_t>(2)
                             .string("a")
                             .string("b")
                             .tensor("t", {2}, kF32, 0)
                             .data(8);
  EXPECT_NO_THROW(parse(file));
  for (std::size_t size = 0; size < file.text().size(); ++size) {
    const GgufBytes part = GgufBytes().raw(file.text().substr(0, size));
    EXPECT_THROW(parse(part), FormatError) << size;
  }
  expect_gguf_refused(GgufBytes().raw("GG"), "the file ends at byte 2, inside the magic number.");
  expect_gguf_refused(GgufBytes().raw("GGUF").put<uint16_t>(3), "the file ends at byte 6, inside the version.");
  expect_gguf_refused(GgufBytes().raw("GGUF").put<uint32_t>(3), "the file ends at byte 8, inside the tensor count.");
}

TEST(GgufContainer, RefusesOtherFiles) {
  expect_gguf_refused(GgufBytes().raw("PK\x03\x04"), "is not a GGUF file: the magic number does not match.");
  expect_gguf_refused(GgufBytes().raw("version https://git-lfs.github.com/spec/v1"),
                      "is a Git LFS pointer, not the file itself. Download it with `git lfs pull`.");
  expect_gguf_refused<NotSupportedError>(GgufBytes().header(0, 0, 1),
                                         "is GGUF version 1; versions 2 and 3 are supported.");
  expect_gguf_refused<NotSupportedError>(
      GgufBytes().header(0, 0, 0x03000000),
      "is a big-endian GGUF file. Convert it in Python: gguf-convert-endian path little.");
}

TEST(GgufContainer, RefusesCountsBeyondTheFile) {
  expect_gguf_refused(GgufBytes().header(0, uint64_t{1} << 60),
                      "claims 1152921504606846976 metadata entries, more than fit in the 0 bytes that follow.");
  expect_gguf_refused(GgufBytes().header(uint64_t{1} << 60, 0),
                      "claims 1152921504606846976 tensors, more than fit in the 0 bytes that follow.");
}

TEST(GgufContainer, RefusesBadMetadata) {
  const auto entry = [](const std::string& key) { return GgufBytes().header(0, 1).string(key); };
  expect_gguf_refused(entry("a").put<uint32_t>(13).put<uint64_t>(0), "metadata \"a\" has the unknown type 13.");
  expect_gguf_refused(entry("a").put(kBool).put<uint8_t>(2), "metadata \"a\" has a bool that is neither 0 nor 1.");
  expect_gguf_refused(entry("a").put(kString).put<uint64_t>(uint64_t{1} << 40),
                      "the file ends at byte 45, inside a metadata value.");
  expect_gguf_refused(entry("a").put(kString).string("\xff\xfe"),
                      "has a metadata value that is not UTF-8, at byte 45.");
  expect_gguf_refused(entry("\xff").put(kUInt8).put<uint8_t>(1), "has a metadata key that is not UTF-8, at byte 32.");
  expect_gguf_refused(entry("").put(kUInt8).put<uint8_t>(1), "has a metadata entry without a key.");
  expect_gguf_refused(entry("a").put(kArray).put(kUInt32).put<uint64_t>(uint64_t{1} << 61),
                      "metadata \"a\" claims 2305843009213693952 elements, more than fit in the 0 bytes that follow.");
  GgufBytes deep = entry("a").put(kArray);
  for (int i = 0; i < 9; ++i) deep.put(kArray).put<uint64_t>(1);
  expect_gguf_refused(deep.put(kUInt8).put<uint64_t>(1).put<uint8_t>(1),
                      "metadata \"a\" nests arrays deeper than 8 levels.");
  GgufBytes twice = GgufBytes().header(0, 2);
  for (int i = 0; i < 2; ++i) twice.string("a").put(kUInt8).put<uint8_t>(1);
  expect_gguf_refused(twice, "metadata \"a\" appears twice.");
}

TEST(GgufContainer, RefusesBadAlignments) {
  const auto aligned = [](uint32_t type) { return GgufBytes().header(0, 1).string("general.alignment").put(type); };
  expect_gguf_refused(aligned(kUInt32).put<uint32_t>(0), "general.alignment must be a power of two; got 0.");
  expect_gguf_refused(aligned(kUInt32).put<uint32_t>(24), "general.alignment must be a power of two; got 24.");
  expect_gguf_refused(aligned(kUInt8).put<uint8_t>(32), "general.alignment must be a uint32; got uint8.");
}

TEST(GgufContainer, RefusesBadTensors) {
  const auto one = [](const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    return GgufBytes().header(1, 0).tensor("t", dims, type, offset).data(32);
  };
  expect_gguf_refused(one({1, 1, 1, 1, 1}, kF32, 0), "tensor \"t\" has 5 dimensions; GGUF allows 4.");
  expect_gguf_refused(one({1u << 31, 1u << 31, 4}, kF32, 0), "tensor \"t\" has a size that overflows.");
  expect_gguf_refused(one({~uint64_t{0}}, kF32, 0), "tensor \"t\" has a size that overflows.");
  expect_gguf_refused(one({uint64_t{1} << 60}, kF32, 0), "tensor \"t\" has a size that overflows.");
  expect_gguf_refused(one({4}, 5, 0), "tensor \"t\" has the unknown type 5.");
  expect_gguf_refused(one({33}, kQ4_0, 0), "tensor \"t\" has rows of 33 elements; Q4_0 stores them in blocks of 32.");
  expect_gguf_refused(one({1}, kF32, 4), "tensor \"t\" is at offset 4, which is not a multiple of the alignment 32.");
  expect_gguf_refused(one({9}, kF32, 0), "tensor \"t\" has 36 bytes at offset 0; the file has 32 bytes of data.");
  expect_gguf_refused(one({1}, kF32, uint64_t{1} << 40),
                      "tensor \"t\" has 4 bytes at offset 1099511627776; the file has 32 bytes of data.");
  expect_gguf_refused(one({1}, kF32, ~uint64_t{31}),
                      "tensor \"t\" has 4 bytes at offset 18446744073709551584; the file has 32 bytes of data.");
}

TEST(GgufContainer, RejectsOverlappingTensors) {
  const auto two = [](const std::string& name, uint64_t offset) {
    return GgufBytes().header(2, 0).tensor("a", {16}, kF32, 0).tensor(name, {8}, kF32, offset).data(96);
  };
  EXPECT_NO_THROW(parse(two("b", 64)));
  expect_gguf_refused(two("b", 32), "tensors \"a\" and \"b\" overlap.");
  expect_gguf_refused(two("b", 0), "tensors \"a\" and \"b\" overlap.");
  expect_gguf_refused(two("a", 64), "tensor \"a\" appears twice.");
}

TEST(GgufValue, RefusesToBeReadAsAnotherType) {
  const GgufValue text{GgufValueType::String, std::string_view("x")};
  EXPECT_EQ(text.as_string(), "x");
  EXPECT_THAT([&] { text.as_int(); }, ThrowsMessage<FormatError>("[GgufValue] must be an integer; got string."));
  EXPECT_THAT([&] { text.as_double(); }, ThrowsMessage<FormatError>("[GgufValue] must be a number; got string."));
  EXPECT_THAT([&] { text.as_bool(); }, ThrowsMessage<FormatError>("[GgufValue] must be a bool; got string."));
  EXPECT_THAT([&] { text.as_array(); }, ThrowsMessage<FormatError>("[GgufValue] must be an array; got string."));
  const GgufValue large{GgufValueType::UInt64, ~uint64_t{0}};
  EXPECT_THAT([&] { large.as_int(); },
              ThrowsMessage<FormatError>("[GgufValue] must be below 2^63; got 18446744073709551615."));
  EXPECT_THAT([&] { large.as_string(); }, ThrowsMessage<FormatError>("[GgufValue] must be a string; got uint64."));
  EXPECT_EQ(large.as_double(), 18446744073709551615.0);
  EXPECT_EQ((GgufValue{GgufValueType::UInt8, uint64_t{7}}.as_int()), 7);
}

}  // namespace
}  // namespace easydel
