#include "easydel/io/torch/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/build_info.h"
#include "easydel/core/files/file.h"
#include "tests/io/zip_builder.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Archives that Python's zipfile wrote, kept as seeds for fuzzing.
std::string read_zip_seed(const std::string& name) {
  return read_file(std::string(std::getenv("EASYDEL_SOURCE_DIR")) + "/tests/fuzz/corpus/zip/" + name);
}

TestZip two_entries() { return make_zip({{"a/one", "first"}, {"a/two", "second"}}); }

template <class E = FormatError>
void expect_zip_refused(const TestZip& zip, const std::string& message) {
  EXPECT_THAT([&] { ZipArchive(as_bytes(zip.bytes), "x.zip"); }, ThrowsMessage<E>("[x.zip] " + message));
}

void expect_entry_refused(const TestZip& zip, const std::string& message) {
  const ZipArchive archive(as_bytes(zip.bytes), "x.zip");
  EXPECT_THAT([&] { archive.stored_bytes(archive.entries()[0]); }, ThrowsMessage<FormatError>("[x.zip] " + message));
}

TEST(ZipArchive, ReturnsStoredEntriesWithoutCopying) {
  const TestZip zip = two_entries();
  const ZipArchive archive(as_bytes(zip.bytes), "x.zip");
  ASSERT_EQ(archive.entries().size(), 2u);
  EXPECT_EQ(archive.entries()[1].name, "a/two");
  const std::span<const std::byte> content = archive.stored_bytes(*archive.find("a/two"));
  EXPECT_EQ(as_text(content), "second");
  EXPECT_EQ(static_cast<const void*>(content.data()), zip.bytes.data() + zip.bytes.find("second"));
  EXPECT_EQ(archive.find("a/three"), nullptr);
}

TEST(ZipArchive, ReadsAnEmptyArchive) {
  const TestZip zip = make_zip({});
  EXPECT_TRUE(ZipArchive(as_bytes(zip.bytes), "x.zip").entries().empty());
}

TEST(ZipArchive, ReadsTheZip64OfPython) {
  const std::string bytes = read_zip_seed("zip64");
  const ZipArchive archive(as_bytes(bytes), "x.zip");
  EXPECT_EQ(as_text(archive.stored_bytes(*archive.find("big"))), "0123456789");
}

TEST(ZipArchive, FindsItsEndBeforeAComment) {
  const std::string bytes = read_zip_seed("comment");
  const ZipArchive archive(as_bytes(bytes), "x.zip");
  EXPECT_EQ(as_text(archive.stored_bytes(*archive.find("a"))), "1");
}

TEST(ZipArchive, RejectsTruncationAtAnyByte) {
  const TestZip zip = two_entries();
  for (std::size_t size = 0; size < zip.bytes.size(); ++size) {
    const std::string part = zip.bytes.substr(0, size);
    EXPECT_THAT([&] { ZipArchive(as_bytes(part), "x.zip"); },
                ThrowsMessage<FormatError>(
                    "[x.zip] is not a complete zip archive: it has no end record. It may be truncated."));
  }
}

TEST(ZipArchive, RefusesAPartOfASplitArchive) {
  TestZip zip = two_entries();
  expect_zip_refused<NotSupportedError>(zip.set<uint16_t>(zip.end + 4, 1),
                                        "is one part of a zip archive that was split.");
}

TEST(ZipArchive, RefusesADirectoryOutsideTheFile) {
  TestZip zip = two_entries();
  expect_zip_refused(zip.set<uint32_t>(zip.end + 16, 1000),
                     "the zip directory must be before the end record at byte 183; got 102 bytes at 1000.");
}

TEST(ZipArchive, RefusesMoreEntriesThanItsDirectoryHolds) {
  TestZip zip = two_entries();
  expect_zip_refused(zip.set<uint16_t>(zip.end + 10, 60000),
                     "the zip directory of 102 bytes cannot hold the 60000 entries that it claims.");
}

TEST(ZipArchive, RefusesFewerEntriesThanItsDirectoryHolds) {
  TestZip zip = two_entries();
  expect_zip_refused(zip.set<uint16_t>(zip.end + 10, 1), "the zip directory holds 51 bytes after its last entry.");
}

TEST(ZipArchive, RefusesAnEntryWithoutItsSignature) {
  TestZip zip = two_entries();
  expect_zip_refused(zip.set<uint32_t>(zip.records[1], 0),
                     "entry 1 of the zip directory does not begin with its signature.");
}

TEST(ZipArchive, RejectsANameThatExtendsPastTheDirectory) {
  TestZip zip = two_entries();
  expect_zip_refused(zip.set<uint16_t>(zip.records[1] + 28, 500),
                     "the zip directory ends at byte 102, inside an entry's name.");
}

TEST(ZipArchive, RefusesAZip64LocatorThatPointsNowhere) {
  std::string bytes = read_zip_seed("zip64");
  TestZip zip{bytes};
  const std::size_t end = bytes.rfind("PK\x05\x06");
  // Python writes no locator for a small archive: put one there.
  zip.bytes.insert(end, std::string("PK\x06\x07", 4) + std::string(16, '\0'));
  zip.set<uint64_t>(end + 8, 7);
  expect_zip_refused(zip, "the zip64 locator points to byte 7, where there is no zip64 end record.");
}

TEST(ZipArchive, RefusesEndRecordsThatDisagree) {
  std::string bytes = read_zip_seed("torch");  // torch always writes both
  TestZip zip{bytes};
  expect_zip_refused(zip.set<uint16_t>(bytes.rfind("PK\x05\x06") + 10, 3),
                     "the two end records of the zip archive disagree.");
}

TEST(ZipArchive, RefusesASaturatedSizeWithoutItsRealValue) {
  TestZip zip = two_entries();
  expect_zip_refused(zip.set<uint32_t>(zip.records[0] + 24, 0xffffffff), "zip entry \"a/one\" lacks its 64-bit sizes.");
}

TEST(ZipArchive, RefusesEncryptedEntries) {
  TestZip zip = two_entries();
  expect_zip_refused<NotSupportedError>(zip.set<uint16_t>(zip.records[1] + 8, 1), "zip entry \"a/two\" is encrypted.");
}

TEST(ZipArchive, RefusesOtherMethods) {
  TestZip zip = two_entries();
  expect_zip_refused<NotSupportedError>(
      zip.set<uint16_t>(zip.records[1] + 10, 93),
      "zip entry \"a/two\" is compressed with method 93; only stored and deflated entries are read.");
}

TEST(ZipArchive, RefusesBadNames) {
  expect_zip_refused(make_zip({{"/etc/passwd", ""}}), "zip entry \"/etc/passwd\" has an absolute path.");
  expect_zip_refused(make_zip({{"C:\\x", ""}}), "zip entry \"C:\\\\x\" has an absolute path.");
  expect_zip_refused(make_zip({{"a/../../x", ""}}), "zip entry \"a/../../x\" escapes the archive.");
  expect_zip_refused(make_zip({{"a\\..\\x", ""}}), "zip entry \"a\\\\..\\\\x\" escapes the archive.");
  expect_zip_refused(make_zip({{"", ""}}), "zip entry \"\" has an empty name.");
  expect_zip_refused(make_zip({{"a\xff", ""}}), "the name of zip entry 0 is not UTF-8.");
  expect_zip_refused(make_zip({{"a", "1"}, {"b", "2"}, {"a", "3"}}), "zip entry \"a\" appears twice.");
}

TEST(ZipArchive, AcceptsNamesThatOnlyLookBad) {
  const TestZip zip = make_zip({{"a/..b/c..", "x"}});
  EXPECT_NE(ZipArchive(as_bytes(zip.bytes), "x.zip").find("a/..b/c.."), nullptr);
}

TEST(ZipArchive, RefusesStoredEntriesOfTwoSizes) {
  TestZip zip = two_entries();
  expect_zip_refused(zip.set<uint32_t>(zip.records[0] + 24, 1000),
                     "zip entry \"a/one\" is stored, but its two sizes differ: 1000 and 5 bytes.");
}

TEST(ZipArchive, RejectsABombByItsClaimedSize) {
  expect_zip_refused(
      make_zip({{.name = "a", .stored = "0123456789", .method = 8, .size = 4'000'000'000}}),
      "zip entry \"a\" claims to grow from 10 to 4000000000 bytes; the limit is 200 times. It may be a zip "
      "bomb.");
}

TEST(ZipArchive, RefusesOverlappingEntries) {
  TestZip zip = two_entries();
  expect_zip_refused(zip.set<uint32_t>(zip.records[1] + 42, static_cast<uint32_t>(zip.headers[0])),
                     "zip entries \"a/one\" and \"a/two\" overlap.");
  zip = two_entries();
  zip.set<uint32_t>(zip.records[0] + 20, 6).set<uint32_t>(zip.records[0] + 24, 6);  // one byte too many
  expect_zip_refused(zip, "zip entries \"a/one\" and \"a/two\" overlap.");
}

TEST(ZipArchive, RejectsAnEntryThatOverlapsTheDirectory) {
  TestZip zip = two_entries();
  zip.set<uint32_t>(zip.records[1] + 20, 1000).set<uint32_t>(zip.records[1] + 24, 1000);
  expect_zip_refused(zip, "zip entry \"a/two\" with 1000 bytes at 40 extends past the start of the directory at 81.");
}

TEST(ZipArchive, ChecksAnEntrysOwnHeader) {
  expect_entry_refused(two_entries().set<uint32_t>(0, 0), "zip entry \"a/one\" has no header at byte 0.");
  expect_entry_refused(two_entries().set<char>(30, 'b'), "zip entry \"a/one\" has a different name in its own header.");
  expect_entry_refused(two_entries().set<uint16_t>(8, 8),
                       "zip entry \"a/one\" has a different method in its own header.");
  expect_entry_refused(two_entries().set<uint32_t>(18, 4),
                       "zip entry \"a/one\" has different sizes in its own header.");
  expect_entry_refused(two_entries().set<uint16_t>(28, 1000),
                       "zip entry \"a/one\" overlaps the next entry: its own header has 1035 bytes.");
  expect_entry_refused(two_entries().set<uint16_t>(28, 1),
                       "zip entry \"a/one\" overlaps the next entry: its own header has 36 bytes.");
}

#if EASYDEL_HAS_ZLIB

// A deflate stream of one block that is not compressed.
std::string deflated(const std::string& content) {
  const auto size = static_cast<uint16_t>(content.size());
  std::string stream(1, '\1');
  stream.append({static_cast<char>(size), static_cast<char>(size >> 8)});
  stream.append({static_cast<char>(~size), static_cast<char>(~size >> 8)});
  return stream + content;
}

void expect_inflate_refused(ZipPart part, const std::string& message) {
  part.name = "a";
  part.method = 8;
  const TestZip zip = make_zip({part});
  const ZipArchive archive(as_bytes(zip.bytes), "x.zip");
  EXPECT_THAT([&] { archive.inflate(archive.entries()[0]); },
              ThrowsMessage<FormatError>("[x.zip] zip entry \"a\" " + message));
}

TEST(ZipInflate, ReadsWhatPythonDeflated) {
  const std::string bytes = read_zip_seed("deflated");
  const ZipArchive archive(as_bytes(bytes), "x.zip");
  ASSERT_TRUE(archive.find("a")->deflated);
  EXPECT_EQ(as_text(archive.inflate(*archive.find("a"))), std::string(1000, 'x'));
  EXPECT_EQ(archive.inflate(*archive.find("b")).size(), 256u);
}

TEST(ZipInflate, ReadsZerosThatShrankAThousandTimes) {
  const std::string bytes = read_zip_seed("bomb");  // a MiB in a KiB, which is harmless
  const ZipArchive archive(as_bytes(bytes), "x.zip");
  EXPECT_EQ(archive.inflate(*archive.find("a")), std::vector<std::byte>(1 << 20));
}

TEST(ZipInflate, RejectsTheSameBeyondTheLimits) {
  const std::string bytes = read_zip_seed("bomb");
  EXPECT_THAT(
      [&] { ZipArchive(as_bytes(bytes), "x.zip", {.harmless_size = 1000}); },
      ThrowsMessage<FormatError>("[x.zip] zip entry \"a\" claims to grow from 1033 to 1048576 bytes; the limit is "
                                 "200 times. It may be a zip bomb."));
}

TEST(ZipInflate, RefusesMoreThanIsClaimed) {
  expect_inflate_refused({.stored = deflated("hello"), .size = 4}, "has more than the 4 bytes that it claims.");
}

TEST(ZipInflate, RefusesLessThanIsClaimed) {
  expect_inflate_refused({.stored = deflated("hello"), .size = 6}, "holds 5 bytes; the directory claims 6.");
  expect_inflate_refused({.stored = deflated("hello").substr(0, 8), .size = 5},
                         "holds 3 bytes; the directory claims 5.");
}

TEST(ZipInflate, RejectsInvalidDeflateStreams) {
  expect_inflate_refused({.stored = "\x07", .size = 5}, "is not a valid deflate stream (invalid block type).");
}

TEST(ZipInflate, RefusesBytesAfterTheStream) {
  expect_inflate_refused({.stored = deflated("hello") + "x", .size = 5},
                         "has data after the end of its deflate stream.");
}

TEST(ZipInflate, VerifiesTheChecksum) {
  expect_inflate_refused({.stored = deflated("hello"), .size = 5, .crc32 = 1},
                         "is damaged: its checksum does not match.");
}

#else

TEST(ZipInflate, ReportsThatThisBuildHasNoZlib) {
  const std::string bytes = read_zip_seed("deflated");
  const ZipArchive archive(as_bytes(bytes), "x.zip");
  EXPECT_THAT(
      [&] { archive.inflate(*archive.find("a")); },
      ThrowsMessage<NotSupportedError>(
          "[x.zip] zip entry \"a\" is compressed, and this build has no zlib. Build with zlib, or save the file "
          "again with torch.save, which does not compress."));
}

#endif

}  // namespace
}  // namespace easydel
