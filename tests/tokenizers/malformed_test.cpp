// An invalid tokenizer.json is rejected with the path of the fault.
#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/tokenizers/files/json_tokenizer.h"

namespace easydel {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Json small_bpe() {
  return Json::parse(R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})");
}

std::string message_of(const Json& document) {
  try {
    JsonTokenizer::from_json(document.dump());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// small_bpe with one part replaced.
std::string message_with(std::string_view key, std::string_view part) {
  Json document = small_bpe();
  document[key] = Json::parse(part);
  return message_of(document);
}

std::string message_with_model(std::string_view key, std::string_view part) {
  Json document = small_bpe();
  document["model"][key] = Json::parse(part);
  return message_of(document);
}

TEST(TokenizerJson, ReadsTheValidOneThatTheOtherTestsBreak) {
  const auto tokenizer = JsonTokenizer::from_json(small_bpe().dump());
  EXPECT_EQ(tokenizer->encode_ids("abba"), (std::vector<int32_t>{2, 1, 0}));
}

TEST(TokenizerJson, RejectsWhatIsNotAJsonObject) {
  EXPECT_THAT([] { JsonTokenizer::from_json("{", "dir/tokenizer.json"); },
              ThrowsMessage<FormatError>(HasSubstr("dir/tokenizer.json")));
  EXPECT_THAT([] { JsonTokenizer::from_json("[]"); },
              ThrowsMessage<FormatError>("[tokenizer.json] the document must be an object; got an array."));
  EXPECT_THAT([] { JsonTokenizer::from_json("{}"); },
              ThrowsMessage<FormatError>("[tokenizer.json] the document must have \"model\"."));
  EXPECT_THAT([] { JsonTokenizer::from_file("/nowhere/tokenizer.json"); }, testing::Throws<IoError>());
}

TEST(TokenizerJson, RefusesUnknownTypesAndNamesTheNearest) {
  EXPECT_THAT(message_with("normalizer", R"({"type": "NFX"})"),
              HasSubstr("[tokenizer.json] normalizer.type must be one of Sequence, NFC,"));
  EXPECT_THAT(message_with("decoder", R"({"type": "ByteLevle"})"), HasSubstr("Did you mean \"ByteLevel\"?"));
  EXPECT_THAT(message_with("version", "\"2.0\""), HasSubstr("version must be one of 1.0; got \"2.0\"."));
}

TEST(TokenizerJson, RefusesWrongTypesWithTheirPath) {
  EXPECT_EQ(message_with("pre_tokenizer",
                         R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": 1}]})"),
            "[tokenizer.json] pre_tokenizer.pretokenizers[0].individual_digits must be true or false; got an integer.");
  EXPECT_EQ(message_with("added_tokens", R"([{"id": 0}])"), "[tokenizer.json] added_tokens[0] must have \"content\".");
  EXPECT_EQ(message_with("padding", R"({"strategy": {"Fixed": -1}, "direction": "Left"})"),
            "[tokenizer.json] padding.strategy.Fixed must be between 0 and 1048576; got -1.");
  EXPECT_EQ(message_with("pre_tokenizer", R"({"type": "Metaspace", "replacement": "ab"})"),
            "[tokenizer.json] pre_tokenizer.replacement must be one character; got \"ab\".");
}

TEST(TokenizerJson, RejectsInconsistentVocabularies) {
  EXPECT_THAT(message_with_model("vocab", R"({"a": -1})"),
              HasSubstr("model.vocab must map every token to an id between"));
  EXPECT_THAT(message_with_model("vocab", R"({"a": 2000000000})"), HasSubstr("got 2000000000 for \"a\"."));
  EXPECT_THAT(message_with_model("vocab", R"({"a": "0"})"), HasSubstr("got \"0\" for \"a\"."));
  EXPECT_EQ(message_with_model("merges", R"([["a", "c"]])"),
            "[tokenizer.json] model.merges[0] names \"c\", which is not in the vocabulary.");
  EXPECT_EQ(message_with_model("merges", R"(["b a"])"),
            "[tokenizer.json] model.merges[0] produces \"ba\", which is not in the vocabulary.");
  EXPECT_EQ(message_with_model("merges", R"(["a b", "a b c"])"),
            "[tokenizer.json] model.merges[1] must be two tokens separated by a space; got \"a b c\".");
  EXPECT_EQ(message_with_model("dropout", "0.1"),
            "[tokenizer.json] model.dropout must be 0 or null, because BPE dropout is not supported; got 0.1.");
  EXPECT_EQ(message_with("model", R"({"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 1})"),
            "[tokenizer.json] model.unk_id must be between 0 and 0; got 1.");
  EXPECT_EQ(message_with("model", R"({"type": "Unigram", "vocab": [["a"]]})"),
            "[tokenizer.json] model.vocab[0] must be a token and its score; got an array.");
}

TEST(TokenizerJson, RejectsTemplatesWithUnknownNames) {
  EXPECT_EQ(message_with("post_processor",
                         R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}],
              "pair": [], "special_tokens": {}})"),
            "[tokenizer.json] post_processor.single[0].SpecialToken.id names \"x\", which is not in special_tokens.");
  EXPECT_EQ(message_with("post_processor",
                         R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B", "type_id": 0}}],
              "pair": [], "special_tokens": {}})"),
            "[tokenizer.json] post_processor.single[0].Sequence.id must be A, because there is only one text.");
}

TEST(TokenizerJson, RefusesPatternsThatDoNotCompileOrThatPcreLacks) {
  const auto split = [](const std::string& pattern) {
    return message_with("pre_tokenizer",
                        R"({"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex": )" +
                            Json(pattern).dump() + "}}");
  };
  EXPECT_THAT(split("(a"),
              HasSubstr("[tokenizer.json] pre_tokenizer.pattern.Regex is not a valid regular expression: "));
  EXPECT_THAT(split("[a&&b]"),
              HasSubstr("uses an intersection of classes at 2 of \"[a&&b]\", which PCRE2 does not have."));
  EXPECT_THAT(split(R"([\W])"), HasSubstr("\\W inside a class"));
  EXPECT_THAT(split(std::string(70000, 'a')), HasSubstr("is a pattern of 70000 bytes; the limit is 65536."));
}

TEST(TokenizerJson, RefusesTruncationsWithoutRoom) {
  EXPECT_EQ(message_with("truncation", R"({"max_length": 2, "strategy": "LongestFirst", "stride": 3})"),
            "[Tokenizer] a truncation to 2 tokens must leave room for 0 special ones and a stride of 3.");
}

TEST(TokenizerJson, RejectsInvalidCharacterMaps) {
  EXPECT_EQ(message_with("normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "!"})"),
            "[tokenizer.json] normalizer.precompiled_charsmap must be base64.");
  EXPECT_EQ(message_with("normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "/wAAAA=="})"),
            "[tokenizer.json] normalizer.precompiled_charsmap says that its trie has 255 bytes; there are 0.");
}

TEST(TokenizerJson, LimitsNestedParts) {
  std::string nested = R"({"type": "NFC"})";
  for (int i = 0; i < 100; ++i) nested = R"({"type": "Sequence", "normalizers": [)" + nested + "]}";
  const std::string document = R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}, "normalizer": )" + nested + "}";
  EXPECT_THROW(JsonTokenizer::from_json(document), FormatError);
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const auto tokenizer = JsonTokenizer::from_json(small_bpe().dump());
  EXPECT_THAT([&] { tokenizer->encode("a\xC3"); },
              ThrowsMessage<FormatError>("[Tokenizer] a text must be UTF-8; byte 1 is not."));
}

TEST(Tokenizer, LimitsThePatternsWork) {
  Json document = small_bpe();
  document["pre_tokenizer"] =
      Json::parse(R"({"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex": "(a+)+$"}})");
  const auto tokenizer = JsonTokenizer::from_json(document.dump());
  EXPECT_THAT([&] { tokenizer->encode(std::string(5000, 'a') + "b"); },
              ThrowsMessage<FormatError>(
                  HasSubstr("the pattern \"(a+)+$\" exceeds its limits at byte 0 of a text of 5001 bytes")));
}

// A file of a few lines could demand more memory than any machine has.
TEST(Tokenizer, LimitsTheGrowthOfAText) {
  const auto sequence = [](std::string_view part, int times) {
    std::string parts;
    for (int i = 0; i < times; ++i) parts += concat(i ? "," : "", part);
    return parts;
  };
  const std::string doubled = sequence(R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})", 40);
  const std::string bytes = sequence(R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})", 40);
  const std::string blanks =
      sequence(R"({"type": "CTC", "pad_token": "x", "word_delimiter_token": "", "cleanup": true})", 40);
  Json document = small_bpe();
  document["normalizer"] = Json::parse(concat(R"({"type": "Sequence", "normalizers": [)", doubled, "]}"));
  EXPECT_THAT([&] { JsonTokenizer::from_json(document.dump())->encode(std::string(2000, 'a')); },
              ThrowsMessage<FormatError>(HasSubstr("the limit is 64 times, and 2 GiB.")));
  document["normalizer"] = Json();
  document["pre_tokenizer"] = Json::parse(concat(R"({"type": "Sequence", "pretokenizers": [)", bytes, "]}"));
  EXPECT_THAT([&] { JsonTokenizer::from_json(document.dump())->encode(std::string(2000, '\x01')); },
              ThrowsMessage<FormatError>(HasSubstr("the limit is 64 times, and 2 GiB.")));
  document["pre_tokenizer"] = Json();
  document["decoder"] = Json::parse(concat(R"({"type": "Sequence", "decoders": [)", blanks, "]}"));
  EXPECT_THAT([&] { JsonTokenizer::from_json(document.dump())->decode(std::vector<int32_t>{0, 1, 2}); },
              ThrowsMessage<FormatError>(HasSubstr("the limit is 64 times, and 2 GiB.")));
  document["decoder"] =
      Json::parse(concat(R"({"type": "Sequence", "decoders": [)", sequence(R"({"type": "Fuse"})", 200), "]}"));
  EXPECT_THAT([&] { JsonTokenizer::from_json(document.dump()); },
              ThrowsMessage<FormatError>("[tokenizer.json] decoder must not have more than 128 parts."));
}

TEST(Tokenizer, LimitsTheRepetitionOfAText) {
  const auto tokenizer = JsonTokenizer::from_json(small_bpe().dump());
  tokenizer->set_truncation(Truncation{.max_length = 1000, .stride = 999});
  EXPECT_THAT(
      [&] { tokenizer->encode(std::string(100'000, 'a')); },
      ThrowsMessage<ConfigError>("[Tokenizer] parts of 1000 tokens with a stride of 999 would repeat each of 100000 "
                                 "tokens 1000 times; the limit is 64."));
  const std::string long_text(2000, 'a');
  tokenizer->set_truncation(Truncation{.max_length = 4});
  EXPECT_THAT([&] { tokenizer->encode_pair({long_text, long_text}); },
              ThrowsMessage<ConfigError>(HasSubstr("overflowing parts of a pair; the limit is 65536.")));
  std::string sequences;
  for (int i = 0; i < 9; ++i) sequences += concat(i ? "," : "", R"({"Sequence": {"id": "A", "type_id": 0}})");
  EXPECT_THAT(message_with("post_processor", concat(R"({"type": "TemplateProcessing", "single": [)", sequences,
                                                    R"(], "pair": [], "special_tokens": {}})")),
              "[tokenizer.json] post_processor.single uses its texts more than 8 times.");
}

TEST(Tokenizer, StripsSpacesAroundAddedTokensInLinearTime) {
  Json document = small_bpe();
  document["added_tokens"] =
      Json::parse(R"([{"id": 3, "content": " ", "single_word": false, "lstrip": true, "rstrip": true,
    "normalized": false, "special": false}])");
  const auto tokenizer = JsonTokenizer::from_json(document.dump());
  EXPECT_EQ(tokenizer->encode_ids("a" + std::string(1'000'000, ' ') + "b").front(), 0);
}

TEST(Tokenizer, BatchesEqualSingleTextsOnAnyNumberOfThreads) {
  const auto tokenizer = JsonTokenizer::from_json(small_bpe().dump());
  std::vector<std::string> texts;
  for (int i = 0; i < 500; ++i) texts.push_back(std::string(static_cast<std::size_t>(i % 37), "ab"[i % 2]) + "ab");
  for (const int threads : {0, 1, 2, 7}) {
    const auto batch = tokenizer->encode_batch(texts, {}, threads);
    ASSERT_EQ(batch.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(batch[i], tokenizer->encode(texts[i]));
  }
  texts[400] = "\xFF";
  EXPECT_THROW(tokenizer->encode_batch(texts, {}, 4), FormatError);
}

TEST(Tokenizer, PadsABatchToItsLongest) {
  const auto tokenizer = JsonTokenizer::from_json(small_bpe().dump());
  tokenizer->set_padding(Padding{.multiple_of = 4, .id = 1});
  const std::vector<std::string> texts{"a", "aaaaa", ""};
  for (const bool offsets : {false, true}) {
    for (const Encoding& encoding : tokenizer->encode_batch(texts, {.offsets = offsets})) {
      EXPECT_EQ(encoding.ids.size(), 8);
      EXPECT_EQ(encoding.attention_mask.size(), 8);
      EXPECT_EQ(encoding.attention_mask.back(), 0);
      EXPECT_EQ(encoding.ids.back(), 1);
    }
  }
}

TEST(Tokenizer, LongTextsWithoutSpacesTakeLinearTime) {
  const auto tokenizer = JsonTokenizer::from_json(small_bpe().dump());
  std::string text;
  for (int i = 0; i < 500'000; ++i) text += "ab";
  EXPECT_EQ(tokenizer->encode_ids(text).size(), 500'000);
}

}  // namespace
}  // namespace easydel
