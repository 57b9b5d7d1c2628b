// Broken models, by hand and at random: an error with a reason, and never a crash.
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/tokenizers/sentencepiece/sentencepiece_tokenizer.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

#if EASYDEL_HAS_SENTENCEPIECE
namespace easydel {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Protocol buffers, as far as a model needs them.
std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
std::string number(int field, uint64_t value) { return varint(static_cast<uint64_t>(field) << 3) + varint(value); }
std::string bytes(int field, const std::string& value) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(value.size()) + value;
}
std::string score(float value) {
  std::string raw(4, '\0');
  std::memcpy(raw.data(), &value, 4);
  return varint(2 << 3 | 5) + raw;
}
enum Type { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4 };
std::string piece(const std::string& text, Type type = kNormal, float value = -1) {
  return bytes(1, bytes(1, text) + score(value) + number(3, type));
}
std::string little_endian(uint32_t value) {
  std::string raw(4, '\0');
  std::memcpy(raw.data(), &value, 4);
  return raw;
}
std::string charsmap(const std::vector<uint32_t>& units, const std::string& replacements) {
  std::string out = little_endian(static_cast<uint32_t>(4 * units.size()));
  for (const uint32_t unit : units) out += little_endian(unit);
  return out + replacements;
}
// A darts-clone unit: the offset of the children; whether a rule ends; the byte that leads here.
uint32_t unit(uint32_t offset, bool leaf, uint8_t label) { return offset << 10 | (leaf ? 1U << 8 : 0) | label; }

const std::string kVocabulary = piece("<unk>", kUnknown) + piece("▁") + piece("a") + piece("b");
std::string normalizer(const std::string& map) { return kVocabulary + bytes(3, bytes(2, map)); }

std::string problem_of(const std::string& model) {
  try {
    const auto tokenizer = SentencePieceTokenizer::from_bytes(model, {}, "m");
    for (const char* text :
         {"a", "ab ba", "\xff", "", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
      tokenizer->decode(tokenizer->encode(text).ids);
    }
    return "";
  } catch (const FormatError& error) {
    return error.what();
  }
}

TEST(SentencePieceModel, AcceptsTheSmallestOne) {
  EXPECT_EQ(problem_of(kVocabulary), "");
  EXPECT_EQ(SentencePieceTokenizer::from_bytes(kVocabulary)->encode_ids("ab"), (std::vector<int32_t>{1, 2, 3}));
}

TEST(SentencePieceModel, ReportsWhatIsWrong) {
  const std::string no_model = "[SentencePieceTokenizer] m is not a sentencepiece model: ";
  EXPECT_EQ(problem_of(""), "[SentencePieceTokenizer] m must have between 1 byte and 256 MiB; got 0 bytes.");
  EXPECT_EQ(problem_of(kVocabulary.substr(0, kVocabulary.size() - 1)),
            no_model + "the model has a field that extends past the end. It may be truncated, or a Git LFS pointer.");
  EXPECT_THAT(problem_of("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"), HasSubstr(no_model));
  EXPECT_EQ(problem_of(bytes(2, "")), no_model + "it has no pieces.");
  EXPECT_EQ(problem_of(kVocabulary + piece("")), "[SentencePieceTokenizer] m: piece 4 is empty.");
  EXPECT_EQ(problem_of(kVocabulary + piece("\xff")), "[SentencePieceTokenizer] m: piece 4 is not valid UTF-8.");
  EXPECT_EQ(problem_of(kVocabulary + piece(std::string("a\0b", 3), kUserDefined)),
            "[SentencePieceTokenizer] m: piece 4 is not valid UTF-8.");
  EXPECT_EQ(problem_of(kVocabulary + piece("c", kNormal, std::numeric_limits<float>::quiet_NaN())),
            "[SentencePieceTokenizer] m: the score of piece 4 is not a number.");
  const std::string refused = "[SentencePieceTokenizer] m is rejected by sentencepiece: ";
  EXPECT_EQ(problem_of(piece("a")), refused + "unk is not defined.");
  EXPECT_EQ(problem_of(kVocabulary + piece("a")), refused + "a is already defined.");
}

TEST(SentencePieceModel, RefusesMoreNestedSymbolsThanTheLibraryHasRoomFor) {
  std::string nested = kVocabulary;
  for (std::size_t i = 2; i <= 65; ++i) nested += piece(std::string(i, 'a'), kUserDefined);
  EXPECT_EQ(problem_of(nested), "");
  nested += piece(std::string(66, 'a'), kUserDefined);
  EXPECT_EQ(problem_of(nested),
            "[SentencePieceTokenizer] m: at most 64 user-defined pieces may share a prefix; got 65.");
}

TEST(SentencePieceModel, FollowsTheNormalizersArrayBeforeTheLibraryDoes) {
  const std::string broken = "[SentencePieceTokenizer] m: the normalizer's precompiled_charsmap is broken: ";
  EXPECT_EQ(problem_of(normalizer("abc")), broken + "it is too short.");
  EXPECT_EQ(problem_of(normalizer(little_endian(1000) + "abc")), broken + "its size is invalid.");
  EXPECT_EQ(problem_of(normalizer(charsmap(std::vector<uint32_t>(256), "x"))),
            broken + "its replacements are not terminated.");
  EXPECT_EQ(problem_of(normalizer(charsmap({unit(1 << 20, false, 0)}, std::string("x\0", 2)))),
            broken + "it points outside its array.");

  // The byte 'a' becomes "b": the root's children are at 256 and on, those of 'a' at 512.
  std::vector<uint32_t> good(768, 1U << 31);  // the high bit means no label
  good[0] = unit(256, false, 0);
  const uint32_t a = 256 ^ 'a';
  good[a] = unit(512 ^ a, true, 'a');
  good[512] = 1U << 31 | 1;
  const std::string replacements("\0b\0", 3);
  ASSERT_EQ(problem_of(normalizer(charsmap(good, replacements))), "");
  EXPECT_EQ(SentencePieceTokenizer::from_bytes(normalizer(charsmap(good, replacements)))->encode_ids("a"),
            (std::vector<int32_t>{1, 3}));

  auto bad = good;
  bad[512] = 1U << 31 | 3;
  EXPECT_EQ(problem_of(normalizer(charsmap(bad, replacements))), broken + "a rule has no replacement.");
  EXPECT_EQ(problem_of(normalizer(charsmap(good, std::string("\0\xff\0", 3)))),
            broken + "a replacement is not valid UTF-8.");
  EXPECT_EQ(problem_of(normalizer(charsmap(good, '\0' + std::string(1025, 'b') + '\0'))),
            broken + "a replacement is longer than 1024 bytes.");
  bad = good;
  bad[a] = unit(256 ^ a, true, 'a');  // 'a' leads back to its parent, and ends a rule each time
  bad[256] = 1U << 31 | 1;
  EXPECT_EQ(problem_of(normalizer(charsmap(bad, replacements))), broken + "it has a cycle.");
  // A chain of rules "a", "aa", "aaa" …, longer than the library's 32 places.
  for (const std::size_t length : {32, 33}) {
    std::vector<uint32_t> chain(256 * (length + 2), 1U << 31);
    chain[0] = unit(256, false, 0);
    for (std::size_t i = 1; i <= length; ++i) {
      const auto at = static_cast<uint32_t>(256 * i ^ 'a'), next = static_cast<uint32_t>(256 * (i + 1));
      chain[at] = unit(next ^ at, true, 'a');
      chain[next] = 1U << 31 | 1;
    }
    EXPECT_EQ(problem_of(normalizer(charsmap(chain, replacements))),
              length == 32 ? "" : broken + "more than 32 rules share a prefix.");
  }
}

TEST(SentencePieceModel, DamageAtRandomIsAnErrorAtMost) {
  const TemporaryDirectory directory;
  run_python("sentencepiece_peer.py", {directory.path().string(), "9", "1"});
  const char* given = std::getenv("EASYDEL_DRAWS");
  const int draws = given ? std::atoi(given) : 150;
  std::mt19937_64 random(4);
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  int taken = 0, refused = 0;
  for (const char* name : {"bpe_user_defined", "llama_like", "nfkc_cf", "unigram_bytes", "user_defined"}) {
    const std::string whole = read_file(directory / (std::string(name) + ".model"));
    // Where the normalizer's array begins and ends, and the pieces end, roughly.
    const std::size_t map = whole.find("nfkc") == std::string::npos ? whole.size() / 2 : whole.find("nfkc");
    for (int i = 0; i < draws; ++i) {
      std::string model = whole;
      for (std::size_t edits = 1 + below(3); edits > 0 && !model.empty(); --edits) {
        const std::size_t from = i % 3 == 0 ? map : 0, end = i % 3 == 1 ? map : model.size();
        const std::size_t at = end > from ? std::min(from + below(end - from), model.size() - 1) : 0;
        switch (below(6)) {
          case 0: model[at] = static_cast<char>(random()); break;
          case 1: model[at] ^= static_cast<char>(1 << below(8)); break;
          case 2: model.erase(at, 1 + below(4)); break;
          case 3: model.insert(at, whole.substr(below(whole.size()), below(40))); break;
          case 4: model.replace(at, 8, whole.substr(below(whole.size() - 8), 8)); break;
          default: model.resize(std::max<std::size_t>(1, at)); break;
        }
      }
      try {
        const auto tokenizer = SentencePieceTokenizer::from_bytes(model);
        ++taken;
        for (const char* text : {"the of <sep> abc 日本 ﷺ ½ Å", "\xff\xfe a\u0301 ① <0x41>x", "aaaaaaa   "}) {
          const auto encoding = tokenizer->encode(text);
          for (const Offset& offset : encoding.offsets) ASSERT_LE(offset.end, std::strlen(text));
          tokenizer->decode(encoding.ids);
        }
        std::vector<int32_t> ids(20);
        for (int32_t& id : ids) id = static_cast<int32_t>(below(static_cast<std::size_t>(tokenizer->vocab_size())));
        tokenizer->decode(ids);
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(taken, draws / 4);
  EXPECT_GT(refused, draws / 4);
}

}  // namespace
}  // namespace easydel
#endif
