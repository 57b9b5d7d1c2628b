#include "easydel/io/safetensors/safetensors_header.h"

#include <gmock/gmock.h>
#include <sys/mman.h>

#include "easydel/core/error.h"
#include "easydel/io/safetensors/safetensors_dtype.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::ThrowsMessage;

std::string file_of(const std::string& json, std::size_t data_bytes = 0) {
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(json.size() >> (8 * i));
  return file + json + std::string(data_bytes, '\0');
}

SafetensorsHeader parse_header(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), "f.safetensors");
}

// One F32 tensor for each pair of offsets.
std::string two(const std::string& x_offsets, const std::string& y_offsets, const std::string& shape = "[1]") {
  const std::string head = R"({"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)";
  return R"({"x":)" + head + x_offsets + R"(},"y":)" + head + y_offsets + "}}";
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"x":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

TEST(SafetensorsHeader, ListsTheTensors) {
  const std::string json = R"({"__metadata__":{"format":"pt"},)"
                           R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                           R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )";
  const SafetensorsHeader header = parse_header(file_of(json, 16));
  const int64_t start = 8 + static_cast<int64_t>(json.size());
  ASSERT_EQ(header.tensors.size(), 2);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, float32);
  EXPECT_THAT(header.tensors[0].shape, ElementsAre());
  EXPECT_EQ(header.tensors[0].offset, start);
  EXPECT_EQ(header.tensors[0].nbytes, 4);
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[1].stored_as, "BF16");
  EXPECT_THAT(header.tensors[1].shape, ElementsAre(2, 3));
  EXPECT_EQ(header.tensors[1].offset, start + 4);
  EXPECT_EQ(header.tensors[1].nbytes, 12);
  EXPECT_THAT(header.metadata, ElementsAre(Pair("format", "pt")));
}

TEST(SafetensorsHeader, CountsPackedValuesAsTorchDoes) {
  const SafetensorsHeader header = parse_header(file_of(one("F4", "[3,8]", "[0,12]"), 12));
  EXPECT_THAT(header.tensors.at(0).shape, ElementsAre(3, 4));
}

TEST(SafetensorsHeader, AcceptsWhatTheReferenceAccepts) {
  EXPECT_EQ(parse_header(file_of("{}")).tensors.size(), 0);
  EXPECT_EQ(parse_header(file_of(" {\n} \t\r\n")).tensors.size(), 0);
  EXPECT_EQ(parse_header(file_of(R"({"__metadata__":null})")).metadata.size(), 0);
  EXPECT_EQ(parse_header(file_of(R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1)).tensors[0].name, "");
  EXPECT_EQ(parse_header(file_of(R"({"\u00e9\n\ud83d\ude00":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1))
                .tensors[0]
                .name,
            "é\n😀");
  // Empty tensors take no space, so that several may share an offset.
  EXPECT_EQ(parse_header(file_of(two("[0,0]", "[0,0]", "[0]"))).tensors.size(), 2);
}

struct Hostile {
  std::string_view what;
  std::string file;
  std::string message;
};

std::string long_name(std::size_t size) { return std::string(size, 'n'); }

std::vector<Hostile> hostile_files() {
  const std::string invalid = "[f.safetensors] the header is not valid JSON: ";
  const std::string known =
      "U64, I64, F64, C64, F32, U32, I32, BF16, F16, U16, I16, F8_E5M2FNUZ, F8_E4M3FNUZ, F8_E8M0, "
      "F8_E4M3, F8_E5M2, I8, U8, F4, BOOL";
  const std::string sizes = "must be a list of integers from 0 to 2^63 - 1; got ";
  const std::string pair = "data_offsets must be two integers from 0 to 2^63 - 1; got ";
  return {
      {"empty", "",
       "[f.safetensors] a safetensors file must begin with 8 bytes for the length of its header; got 0 bytes in "
       "total."},
      {"seven_bytes", "1234567",
       "[f.safetensors] a safetensors file must begin with 8 bytes for the length of its header; got 7 bytes in "
       "total."},
      {"lfs_pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0",
       "[f.safetensors] is a Git LFS pointer, not the file itself. Download it with `git lfs pull`."},
      {"header_of_a_gigabyte", std::string("\0\0\0\x40\0\0\0\0", 8) + "{}",
       "[f.safetensors] the header of a safetensors file must have at most 100000000 bytes; this one claims "
       "1073741824. The file is damaged or in another format."},
      {"header_of_all_ones", std::string(8, '\xff') + "{}",
       "[f.safetensors] the header of a safetensors file must have at most 100000000 bytes; this one claims "
       "18446744073709551615. The file is damaged or in another format."},
      {"header_beyond_the_file", std::string("\x64\0\0\0\0\0\0\0", 8) + "{}",
       "[f.safetensors] the header claims 100 bytes, but 2 follow. The file is truncated or in another format."},
      {"no_header", file_of(""),
       "[f.safetensors] the header must be a JSON object; it begins with the end of the header."},
      {"a_list", file_of("[]"), "[f.safetensors] the header must be a JSON object; it begins with '['."},
      {"byte_order_mark", file_of("\xEF\xBB\xBF{}"),
       "[f.safetensors] the header must be a JSON object; it begins with the byte 239."},
      {"invalid_utf8", file_of("{\"\xff\":1}"), "[f.safetensors] the header must be UTF-8; byte 2 of it is not."},
      {"overlong_utf8", file_of("{\"\xC0\xAF\":1}"), "[f.safetensors] the header must be UTF-8; byte 2 of it is not."},
      {"half_a_surrogate_pair", file_of(R"({"\ud800":1})"),
       "[f.safetensors, header byte 1] line 1, column 2: half of a surrogate pair; got '\\'."},
      {"unknown_escape", file_of(R"({"\x":1})"),
       "[f.safetensors, header byte 1] line 1, column 2: an unknown escape; got '\\'."},
      {"control_character", file_of("{\"a\nb\":1}"),
       invalid + "expected no control character in a string at byte 3; got the byte 10."},
      {"open_string", file_of(R"({"a)"),
       invalid + "expected the closing quote of a string at byte 3; got the end of the header."},
      {"open_escape", file_of(R"({"a\)"),
       invalid + "expected the closing quote of a string at byte 5; got the end of the header."},
      {"open_object", file_of("{"), invalid + "expected a key in quotes at byte 1; got the end of the header."},
      {"trailing_text", file_of("{} x"), invalid + "expected the end of the header at byte 3; got 'x'."},
      {"trailing_comma", file_of(R"({"__metadata__":{},})"), invalid + "expected a key in quotes at byte 19; got '}'."},
      {"no_colon", file_of(R"({"x" 1})"), invalid + "expected ':' after a key at byte 5; got '1'."},
      {"no_comma", file_of(R"({"__metadata__":{} "x":1})"), invalid + "expected ',' or '}' at byte 19; got '\"'."},
      {"comment", file_of("{/**/}"), invalid + "expected a key in quotes at byte 1; got '/'."},
      {"tensor_is_a_number", file_of(R"({"x":3})"),
       R"([f.safetensors] tensor "x" must be a JSON object; it begins with '3'.)"},
      {"tensor_is_a_list", file_of(R"({"x":["F32",[1],[0,4]]})", 4),
       R"([f.safetensors] tensor "x" must be a JSON object; it begins with '['.)"},
      {"escapes_in_a_name", file_of(R"({"\u001b[2J":3})"),
       R"([f.safetensors] tensor "\u001b[2J" must be a JSON object; it begins with '3'.)"},
      {"long_name", file_of("{\"" + long_name(5000) + "\":3}"),
       "[f.safetensors] tensor \"" + long_name(100) + "\"… must be a JSON object; it begins with '3'."},
      {"same_name_twice",
       file_of(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
               R"("x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
               2),
       R"([f.safetensors] tensor "x" appears twice in the header.)"},
      {"same_name_twice_by_escape",
       file_of(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
               R"("\u0078":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
               2),
       R"([f.safetensors] tensor "x" appears twice in the header.)"},
      {"unknown_field", file_of(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"scale":2}})", 1),
       R"([f.safetensors] tensor "x": unknown field "scale"; known: dtype, shape, data_offsets.)"},
      {"dtype_twice", file_of(R"({"x":{"dtype":"U8","dtype":"U8"}})"),
       R"([f.safetensors] tensor "x" has dtype twice.)"},
      {"shape_twice", file_of(R"({"x":{"shape":[],"shape":[]}})"), R"([f.safetensors] tensor "x" has shape twice.)"},
      {"offsets_twice", file_of(R"({"x":{"data_offsets":[0,1],"data_offsets":[0,1]}})"),
       R"([f.safetensors] tensor "x" has data_offsets twice.)"},
      {"no_dtype", file_of(R"({"x":{}})"), R"([f.safetensors] tensor "x" has no dtype.)"},
      {"no_shape", file_of(R"({"x":{"dtype":"U8"}})"), R"([f.safetensors] tensor "x" has no shape.)"},
      {"no_offsets", file_of(R"({"x":{"dtype":"U8","shape":[1]}})", 1),
       R"([f.safetensors] tensor "x" has no data_offsets.)"},
      {"dtype_is_a_number", file_of(R"({"x":{"dtype":3}})"),
       R"([f.safetensors] tensor "x": dtype must be a string; it begins with '3'.)"},
      {"unknown_dtype", file_of(one("F99", "[1]", "[0,4]"), 4),
       R"([f.safetensors] tensor "x": unknown dtype "F99"; known: )" + known + "."},
      {"dtype_in_small_letters", file_of(one("f32", "[1]", "[0,4]"), 4),
       R"([f.safetensors] tensor "x": unknown dtype "f32"; known: )" + known + "."},
      {"shape_is_a_number", file_of(one("F32", "1", "[0,4]"), 4),
       R"([f.safetensors] tensor "x": shape )" + sizes + R"("1".)"},
      {"negative_size", file_of(one("F32", "[-1]", "[0,4]"), 4),
       R"([f.safetensors] tensor "x": shape )" + sizes + R"("-1".)"},
      {"fractional_size", file_of(one("F32", "[1.5]", "[0,4]"), 4),
       R"([f.safetensors] tensor "x": shape )" + sizes + R"("1.5".)"},
      {"size_with_an_exponent", file_of(one("F32", "[1e0]", "[0,4]"), 4),
       R"([f.safetensors] tensor "x": shape )" + sizes + R"("1e0".)"},
      {"size_with_a_leading_zero", file_of(one("F32", "[01]", "[0,4]"), 4),
       R"([f.safetensors] tensor "x": shape )" + sizes + R"("01".)"},
      {"size_of_2_to_the_64", file_of(one("F32", "[18446744073709551616]", "[0,4]"), 4),
       R"([f.safetensors] tensor "x": shape )" + sizes + R"("18446744073709551616".)"},
      {"size_in_quotes", file_of(one("F32", "[\"1\"]", "[0,4]"), 4),
       R"([f.safetensors] tensor "x": shape )" + sizes + R"("\"1\"".)"},
      {"open_shape", file_of(R"({"x":{"shape":[1)"),
       invalid + "expected ',' or ']' at byte 16; got the end of the header."},
      {"one_offset", file_of(one("F32", "[1]", "[0]"), 4), R"([f.safetensors] tensor "x": )" + pair + "1."},
      {"three_offsets", file_of(one("F32", "[1]", "[0,4,8]"), 4), R"([f.safetensors] tensor "x": )" + pair + "3."},
      {"negative_offset", file_of(one("F32", "[1]", "[-4,0]"), 4),
       R"([f.safetensors] tensor "x": )" + pair + R"("-4".)"},
      {"offsets_that_decrease", file_of(one("F32", "[1]", "[4,0]"), 4),
       R"([f.safetensors] tensor "x": data_offsets must not decrease; got [4, 0].)"},
      {"shape_that_overflows", file_of(one("F32", "[4294967296,4294967296]", "[0,4]"), 4),
       R"([f.safetensors] tensor "x": the product of its shape does not fit in 63 bits.)"},
      {"bytes_that_overflow", file_of(one("F32", "[4611686018427387904]", "[0,0]")),
       R"([f.safetensors] tensor "x": the product of its shape does not fit in 63 bits.)"},
      {"empty_shape_that_overflows", file_of(one("F32", "[0,4294967296,4294967296]", "[0,0]")),
       R"([f.safetensors] tensor "x": the product of its shape does not fit in 63 bits.)"},
      {"shape_larger_than_its_bytes", file_of(one("F32", "[2]", "[0,4]"), 4),
       R"([f.safetensors] tensor "x": its shape and dtype F32 need 8 bytes; data_offsets span 4.)"},
      {"shape_smaller_than_its_bytes", file_of(one("F32", "[]", "[0,8]"), 8),
       R"([f.safetensors] tensor "x": its shape and dtype F32 need 4 bytes; data_offsets span 8.)"},
      {"half_a_byte", file_of(one("F4", "[7]", "[0,4]"), 4),
       R"([f.safetensors] tensor "x": the last dimension of F4 must be even, because two values share a byte.)"},
      {"packed_scalar", file_of(one("F4", "[]", "[0,1]"), 1),
       R"([f.safetensors] tensor "x": the last dimension of F4 must be even, because two values share a byte.)"},
      {"data_cut_off", file_of(one("F32", "[1]", "[0,4]"), 3),
       R"([f.safetensors] tensor "x" ends at byte 4 of the data, which has 3. The file is truncated or damaged.)"},
      {"offsets_far_beyond_the_file", file_of(one("U8", "[4]", "[9223372036854775800,9223372036854775804]"), 4),
       R"([f.safetensors] tensor "x" ends at byte 9223372036854775804 of the data, which has 4. The file is truncated or damaged.)"},
      {"overlap", file_of(two("[0,4]", "[2,6]"), 6),
       R"([f.safetensors] tensor "y" begins at byte 2 of the data, inside "x", which ends at 4.)"},
      {"same_bytes_twice", file_of(two("[0,4]", "[0,4]"), 4),
       R"([f.safetensors] tensor "y" begins at byte 0 of the data, inside "x", which ends at 4.)"},
      {"gap_before", file_of(one("F32", "[1]", "[4,8]"), 8),
       R"([f.safetensors] bytes 0 to 4 of the data, before tensor "x", belong to no tensor.)"},
      {"gap_between", file_of(two("[0,4]", "[8,12]"), 12),
       R"([f.safetensors] bytes 4 to 8 of the data, before tensor "y", belong to no tensor.)"},
      {"data_behind", file_of(one("F32", "[1]", "[0,4]"), 5),
       "[f.safetensors] the last 1 bytes of the data belong to no tensor."},
      {"data_without_tensors", file_of("{}", 5), "[f.safetensors] the last 5 bytes of the data belong to no tensor."},
      {"metadata_is_a_string", file_of(R"({"__metadata__":"pt"})"),
       "[f.safetensors] __metadata__ must be a JSON object; it begins with '\"'."},
      {"metadata_holds_a_number", file_of(R"({"__metadata__":{"a":1}})"),
       R"([f.safetensors] __metadata__: "a" must be a string; it begins with '1'.)"},
      {"metadata_holds_an_object", file_of(R"({"__metadata__":{"a":{"b":"c"}}})"),
       R"([f.safetensors] __metadata__: "a" must be a string; it begins with '{'.)"},
      {"metadata_key_twice", file_of(R"({"__metadata__":{"a":"1","a":"2"}})"),
       R"([f.safetensors] __metadata__ has "a" twice.)"},
      {"metadata_twice", file_of(R"({"__metadata__":{},"__metadata__":{}})"),
       R"([f.safetensors] the header has "__metadata__" twice.)"},
  };
}

TEST(SafetensorsHeader, RefusesEachHostileFileWithItsOwnMessage) {
  for (const Hostile& hostile : hostile_files()) {
    SCOPED_TRACE(hostile.what);
    EXPECT_THAT([&] { parse_header(hostile.file); }, ThrowsMessage<FormatError>(hostile.message));
  }
}

TEST(SafetensorsHeader, NamesATypeThatTorchLacks) {
  EXPECT_THAT(
      [] { parse_header(file_of(one("F6_E2M3", "[4]", "[0,3]"), 3)); },
      ThrowsMessage<NotSupportedError>(R"([f.safetensors] tensor "x" is F6_E2M3, which torch has no type for.)"));
}

TEST(SafetensorsHeader, RejectsTruncationAtAnyByte) {
  const std::string whole =
      file_of(R"({"__metadata__":{"format":"pt"},"x":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}} )", 16);
  ASSERT_EQ(parse_header(whole).tensors.size(), 1);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(parse_header(whole.substr(0, size)), FormatError) << "cut at " << size;
  }
}

// The map ends where the file does: a reader that looks one byte further crashes.
TEST(SafetensorsHeader, IsNotReadBeyondItsEnd) {
  constexpr std::size_t kPage = 4096;
  auto* pages =
      static_cast<char*>(::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(::mprotect(pages + kPage, kPage, PROT_NONE), 0);
  for (const std::string json :
       {"{", "{\"x", "{\"x\\", "{\"x\":", "{\"x\":{\"shape\":[", "{\"x\":{\"shape\":[1", "{\"__metadata__\":nul"}) {
    const std::string file = file_of(json);
    char* start = pages + kPage - file.size();
    std::copy(file.begin(), file.end(), start);
    EXPECT_THROW(parse_safetensors_header(std::as_bytes(std::span(start, file.size())), "f.safetensors"), FormatError)
        << json;
  }
  ::munmap(pages, 2 * kPage);
}

TEST(SafetensorsDType, KnowsEachTypeByBothNames) {
  for (const SafetensorsDType& entry : safetensors_dtypes()) {
    EXPECT_EQ(find_safetensors_dtype(entry.name), &entry);
    EXPECT_EQ(&safetensors_dtype(entry.dtype), &entry);
    EXPECT_EQ(static_cast<std::size_t>(entry.bytes), c10::elementSize(entry.dtype)) << entry.name;
  }
  EXPECT_EQ(find_safetensors_dtype("F99"), nullptr);
  EXPECT_THAT([] { safetensors_dtype(DType::ComplexDouble); },
              ThrowsMessage<NotSupportedError>(
                  "[safetensors] the format has no type for ComplexDouble. Convert the tensor before saving it."));
}

}  // namespace
}  // namespace easydel
