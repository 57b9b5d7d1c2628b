#include "easydel/tokenizers/token_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/tokenizers/files/json_tokenizer.h"
#include "grammar_fixture.h"

namespace easydel::serve::test {
namespace {

using testing::Optional;

Json added_token(int64_t id, const char* content, bool special) {
  return Json::object({{"id", id},
                       {"content", content},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", special}});
}

std::shared_ptr<const Tokenizer> tokenizer_of(const char* model_type, const std::vector<std::string>& tokens,
                                              const Json& decoder, const Json& added = Json::array()) {
  Json vocabulary = Json::object();
  for (std::size_t i = 0; i < tokens.size(); ++i) vocabulary[tokens[i]] = static_cast<int64_t>(i);
  Json model = Json::object({{"type", model_type}, {"vocab", vocabulary}});
  if (std::string_view(model_type) == "BPE") model["merges"] = Json::array();
  if (std::string_view(model_type) != "BPE") model["unk_token"] = tokens.front();
  return JsonTokenizer::from_json(
      Json::object({{"added_tokens", added}, {"decoder", decoder}, {"model", model}}).dump());
}

Json decoder_of(const char* type) { return Json::object({{"type", type}}); }

TEST(TokenBytes, AreThoseOfTheByteLevelAlphabet) {
  const auto tokenizer = byte_level_tokenizer();
  const TokenBytes bytes_of(*tokenizer);
  for (int32_t id = 0; id < 256; ++id) EXPECT_THAT(bytes_of(id), Optional(std::string(1, static_cast<char>(id))));
  const auto of = [&](std::initializer_list<uint8_t> name_bytes) {
    for (int32_t id = 256; id < tokenizer->vocab_size(); ++id) {
      if (bytes_of(id) == std::string(name_bytes.begin(), name_bytes.end())) return true;
    }
    return false;
  };
  EXPECT_TRUE(of({0xE2, 0x82}));  // the first two bytes of a character
  EXPECT_TRUE(of({'a', 0xF0, 0x9F}));
  EXPECT_TRUE(of({0x98, 0x80, '"'}));
  EXPECT_TRUE(of({'<', 't', 'o', 'o', 'l', '>'}));
  EXPECT_THAT(bytes_of(*tokenizer->token_to_id("</s>")), Optional(std::string("</s>")));
  EXPECT_EQ(bytes_of(100000), std::nullopt);
  EXPECT_EQ(token_bytes(*tokenizer, -1), std::nullopt);
}

TEST(TokenBytes, AreThoseOfBytePiecesAndSpacesOfSentencepiece) {
  const Json decoder = Json::object(
      {{"type", "Sequence"},
       {"decoders", Json::array({Json::object({{"type", "Replace"},
                                               {"pattern", Json::object({{"String", "\xE2\x96\x81"}})},
                                               {"content", " "}}),
                                 decoder_of("ByteFallback"), decoder_of("Fuse"),
                                 Json::object({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}})})}});
  const auto tokenizer = tokenizer_of("BPE",
                                      {"<unk>", "<0x0A>", "<0xE2>", "<0xff>", "\xE2\x96\x81", "a",
                                       "\xE2\x96\x81the\xE2\x96\x81", "\xC3\xB6", "\xEF\xBF\xBD", "<0xE2>x"},
                                      decoder, Json::array({added_token(0, "<unk>", true)}));
  const TokenBytes bytes_of(*tokenizer);
  const char* const expected[] = {"<unk>", "\n",    "\xE2",     "\xFF",         " ",
                                  "a",     " the ", "\xC3\xB6", "\xEF\xBF\xBD", "<0xE2>x"};
  for (int32_t id = 0; id < 10; ++id) EXPECT_THAT(bytes_of(id), Optional(std::string(expected[id]))) << id;
}

TEST(TokenBytes, AreWhatWordPieceAddsWithinAText) {
  const auto tokenizer = tokenizer_of("WordLevel", {"[UNK]", "a", "##ing", "word"},
                                      Json::object({{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", false}}));
  const TokenBytes bytes_of(*tokenizer);
  EXPECT_THAT(bytes_of(2), Optional(std::string("ing")));
  EXPECT_THAT(bytes_of(3), Optional(std::string(" word")));
}

TEST(TokenBytes, AreRefusedWhereTokensMelt) {
  const auto tokenizer = tokenizer_of(
      "WordLevel", {"<pad>", "a", "b"},
      Json::object({{"type", "CTC"}, {"pad_token", "<pad>"}, {"word_delimiter_token", "|"}, {"cleanup", false}}));
  EXPECT_THROW(TokenBytes{*tokenizer}, NotSupportedError);
}

}  // namespace
}  // namespace easydel::serve::test
