#include "easydel/io/hub/hash.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/hub/base64.h"
#include "easydel/io/hub/portable_sha.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

// The portable code of a build without OpenSSL, which every build has.
template <bool is_sha256>
struct Portable : PortableSha {
  Portable() : PortableSha(is_sha256) {}
  void update(std::string_view text) { PortableSha::update(text.data(), text.size()); }
  std::string hex() { return to_hex(digest()); }
};

template <class Hash>
std::string hex_of(std::string_view text) {
  Hash hash;
  hash.update(text);
  return hash.hex();
}

template <class Hashes>
class ShaTest : public testing::Test {
 protected:
  using Hash256 = typename Hashes::first_type;
  using Hash1 = typename Hashes::second_type;
  std::string sha256(std::string_view text) { return hex_of<Hash256>(text); }
  std::string sha1(std::string_view text) { return hex_of<Hash1>(text); }
};
using Implementations = testing::Types<std::pair<Sha256, Sha1>, std::pair<Portable<true>, Portable<false>>>;
TYPED_TEST_SUITE(ShaTest, Implementations);

constexpr std::string_view kTwoBlocks =
    "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";

TYPED_TEST(ShaTest, Sha256GivesTheKnownAnswersOfFips180) {
  EXPECT_EQ(this->sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(this->sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(this->sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(this->sha256(kTwoBlocks), "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(this->sha256(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TYPED_TEST(ShaTest, Sha1GivesTheKnownAnswersOfFips180) {
  EXPECT_EQ(this->sha1(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(this->sha1("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(this->sha1("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(this->sha1(kTwoBlocks), "a49b2446a02c645bf419f995b67091253a04a259");
  EXPECT_EQ(this->sha1(std::string(1'000'000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TYPED_TEST(ShaTest, ChunksOfAnySizeGiveTheSameHash) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7);
  const std::string whole256 = this->sha256(text), whole1 = this->sha1(text);
  for (std::size_t piece = 1; piece < 200; ++piece) {
    typename TestFixture::Hash256 hash256;
    typename TestFixture::Hash1 hash1;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      hash256.update(std::string_view(text).substr(at, piece));
      hash1.update(std::string_view(text).substr(at, piece));
    }
    EXPECT_EQ(hash256.hex(), whole256) << piece;
    EXPECT_EQ(hash1.hex(), whole1) << piece;
  }
}

TYPED_TEST(ShaTest, AgreesWithThePortableCodeOnEveryLengthAroundABlock) {
  for (std::size_t size = 0; size < 200; ++size) {
    const std::string text(size, static_cast<char>(size));
    EXPECT_EQ(this->sha256(text), hex_of<Portable<true>>(text)) << size;
    EXPECT_EQ(this->sha1(text), hex_of<Portable<false>>(text)) << size;
  }
}

TEST(Sha, ACopyGoesOnFromWhereTheOtherWas) {
  Sha256 hash;
  hash.update("a");
  Sha256 copy = hash;
  copy.update("bc");
  hash.update("b");
  EXPECT_EQ(copy.hex(), sha256_hex("abc"));
  EXPECT_EQ(hash.hex(), sha256_hex("ab"));
}

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
