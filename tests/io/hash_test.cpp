#include "easydel/io/hub/hash.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/hub/base64.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

// Both the portable code and the CPU's instructions, where this machine has them.
class ShaTest : public testing::TestWithParam<bool> {
 protected:
  std::string sha256(std::string_view text) {
    Sha256 hash(GetParam());
    hash.update(text);
    return hash.hex();
  }
  std::string sha1(std::string_view text) {
    Sha1 hash(GetParam());
    hash.update(text);
    return hash.hex();
  }
};

constexpr std::string_view kTwoBlocks =
    "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";

TEST_P(ShaTest, Sha256GivesTheKnownAnswersOfFips180) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(kTwoBlocks), "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_P(ShaTest, Sha1GivesTheKnownAnswersOfFips180) {
  EXPECT_EQ(sha1(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(sha1("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(sha1("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(sha1(kTwoBlocks), "a49b2446a02c645bf419f995b67091253a04a259");
  EXPECT_EQ(sha1(std::string(1'000'000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST_P(ShaTest, ChunksOfAnySizeGiveTheSameHash) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7);
  const std::string whole256 = sha256(text), whole1 = sha1(text);
  for (std::size_t piece = 1; piece < 200; ++piece) {
    Sha256 hash256(GetParam());
    Sha1 hash1(GetParam());
    for (std::size_t at = 0; at < text.size(); at += piece) {
      hash256.update(std::string_view(text).substr(at, piece));
      hash1.update(std::string_view(text).substr(at, piece));
    }
    EXPECT_EQ(hash256.hex(), whole256) << piece;
    EXPECT_EQ(hash1.hex(), whole1) << piece;
  }
}

TEST_P(ShaTest, AgreesWithTheOtherCodeOnEveryLengthAroundABlock) {
  for (std::size_t size = 0; size < 200; ++size) {
    const std::string text(size, static_cast<char>(size));
    Sha256 other256(!GetParam());
    Sha1 other1(!GetParam());
    other256.update(text);
    other1.update(text);
    EXPECT_EQ(sha256(text), other256.hex()) << size;
    EXPECT_EQ(sha1(text), other1.hex()) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Code, ShaTest, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Instructions" : "Portable"; });

TEST(GitBlobHash, IsWhatGitHashObjectPrints) {
  EXPECT_EQ(git_blob_hash(""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_EQ(git_blob_hash("hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
}

TEST(Sha256OfFile, HashesAFileLargerThanItsBuffer) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "a", std::string(1'000'000, 'a') + std::string(200'000, 'b'));
  EXPECT_EQ(sha256_of_file(directory / "a"), sha256_hex(std::string(1'000'000, 'a') + std::string(200'000, 'b')));
}

TEST(Sha256OfFile, NamesAMissingFile) {
  EXPECT_THAT([] { sha256_of_file("/nowhere/at/all"); },
              testing::ThrowsMessage<IoError>("[sha256] cannot open /nowhere/at/all: No such file or directory."));
}

TEST(Base64, GivesTheKnownAnswersOfRfc4648) {
  EXPECT_EQ(base64_encode(""), "");
  EXPECT_EQ(base64_encode("f"), "Zg==");
  EXPECT_EQ(base64_encode("fo"), "Zm8=");
  EXPECT_EQ(base64_encode("foo"), "Zm9v");
  EXPECT_EQ(base64_encode("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64_encode("\xff\xfe\xfd"), "//79");
}

}  // namespace
}  // namespace easydel
