#include "easydel/serve/grammar/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>

#include "easydel/core/error.h"
#include "easydel/serve/grammar/mask.h"
#include "grammar_fixture.h"

namespace easydel::serve::test {
namespace {

using Kind = GrammarSpec::Kind;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Grammar : public testing::Test {
 protected:
  void SetUp() override {
    if (!world().compiler) GTEST_SKIP() << "this build has no xgrammar";
  }
  static const GrammarWorld& world() {
    static const GrammarWorld instance;
    return instance;
  }
  static void expect_refused(Kind kind, const std::string& text, const std::string& part) {
    EXPECT_THAT([&] { world().compile(kind, text); }, ThrowsMessage<ConfigError>(HasSubstr(part)))
        << text.substr(0, 200);
  }
};

// Null for a number such as 1e999, which is JSON but no double.
std::optional<Json> parse_answer(const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const FormatError& error) {
    if (std::string_view(error.what()).find("out of range for a double") == std::string_view::npos) throw;
    return std::nullopt;
  }
}

constexpr const char* kSchemas[] = {
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
        "required": ["name", "age"]})",
    R"({"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 4})",
    R"({"type": "object", "properties": {"kind": {"enum": ["a\"b", "c", 3, null, true]}, "code": {"const": "x1"},
        "inner": {"type": "object", "properties": {"on": {"type": "boolean"}, "list": {"type": "array",
        "items": {"type": "string", "maxLength": 5}, "maxItems": 3}}, "required": ["on"]}}, "required": ["kind", "inner"]})",
    R"({"type": "string", "pattern": "^[a-c]{2,4}-[0-9]+$"})",
    R"({"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 2, "maxLength": 6}, {"type": "null"},
        {"type": "object", "properties": {"v": {"type": "boolean"}}, "required": ["v"]}]})",
    R"({"$defs": {"node": {"type": "object", "properties": {"value": {"type": "integer"}, "next": {"anyOf": [
        {"type": "null"}, {"$ref": "#/$defs/node"}]}}, "required": ["value", "next"]}}, "$ref": "#/$defs/node"})",
    R"({"type": "object", "properties": {"score": {"type": "number", "minimum": -1.5, "exclusiveMaximum": 2},
        "tag": {"type": "string"}}, "additionalProperties": {"type": "integer"}})",
    R"({"type": "object", "properties": {"when": {"type": "string", "pattern": "^\\d{4}-\\d\\d$"}, "who": {"type": "array",
        "items": {"$ref": "#/definitions/person"}, "minItems": 2, "maxItems": 2}}, "required": ["who", "when"],
        "definitions": {"person": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}}})",
    R"({"type": "object", "properties": {"e": {"type": "string", "format": "email"}, "p": {"type": "string",
        "format": "json-pointer"}, "r": {"type": "string", "format": "relative-json-pointer"}, "u": {"type": "string",
        "format": "uri"}, "x": {"type": "string", "pattern": "[^a]{3}.\\S"}}, "required": ["e", "p", "r", "u", "x"]})",
};

TEST_F(Grammar, ThousandRandomAnswersFollowTheirSchemas) {
  std::mt19937 random(7);
  int ended = 0;
  for (const char* text : kSchemas) {
    const Json schema = Json::parse(text);
    const auto grammar = world().compile(Kind::JsonSchema, text);
    for (int i = 0; i < 125; ++i) {
      const Drawn drawn = draw(world(), *grammar, random);
      std::optional<Json> answer;
      ASSERT_NO_THROW(answer = drawn.ended ? parse_answer(drawn.text) : std::nullopt) << drawn.text;
      if (!answer) continue;
      ++ended;
      EXPECT_EQ(schema_violation(*answer, schema, schema), "") << drawn.text;
    }
  }
  EXPECT_GE(ended, 1000);
}

TEST_F(Grammar, JsonObjectTakesObjectsAndNothingElse) {
  const auto grammar = world().compiler->compile({.kind = Kind::JsonObject});
  EXPECT_TRUE(world().matches(*grammar, R"({"a": [1, -2.5e3, {"b": null}], "ö": "x\n"})"));
  EXPECT_TRUE(world().matches(*grammar, "{}"));
  EXPECT_FALSE(world().matches(*grammar, "[1]"));
  EXPECT_FALSE(world().matches(*grammar, R"({"a": 01})"));
  EXPECT_FALSE(world().matches(*grammar, R"({"a": 1)"));
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    const Drawn drawn = draw(world(), *grammar, random, 400);
    const auto answer = drawn.ended ? parse_answer(drawn.text) : std::nullopt;
    EXPECT_TRUE(!answer || answer->is_object()) << drawn.text;
  }
}

TEST_F(Grammar, RegexMatchesTheWholeAnswer) {
  const auto grammar = world().compile(Kind::Regex, R"([A-Z]\d{2,3}(-ö)?)");
  EXPECT_TRUE(world().matches(*grammar, "K12"));
  EXPECT_TRUE(world().matches(*grammar, "K123-ö"));
  EXPECT_FALSE(world().matches(*grammar, "K1"));
  EXPECT_FALSE(world().matches(*grammar, "xK12"));
  EXPECT_FALSE(world().matches(*grammar, "K1234"));
}

// Not a surrogate nor a form that is too long: a reader would see a replacement for each of its bytes.
TEST_F(Grammar, ACharacterIsOneToEveryReader) {
  constexpr const char* kText = R"({"type": "string", "minLength": 40, "maxLength": 40})";
  const Json schema = Json::parse(kText);
  const auto grammar = world().compile(Kind::JsonSchema, kText);
  std::mt19937 random(11);
  for (int i = 0; i < 500; ++i) {
    const Drawn drawn = draw(world(), *grammar, random);
    ASSERT_TRUE(drawn.ended);
    EXPECT_EQ(schema_violation(Json::parse(drawn.text), schema, schema), "") << drawn.text;
  }
}

TEST_F(Grammar, ChoicesAreLiteral) {
  const std::vector<std::string> choices{"yes",           "no",       "a\"b\\n", "line\nbreak", "[x]*", "ö€😀",
                                         "yes, and more", "\x01\x7F", ""};
  const auto grammar = world().choice(choices);
  for (const std::string& choice : choices) EXPECT_TRUE(world().matches(*grammar, choice)) << choice;
  for (const char* other : {"ye", "yess", "xx", "a\"b\n", "yes, and", "nope"})
    EXPECT_FALSE(world().matches(*grammar, other)) << other;
}

TEST_F(Grammar, EbnfFollowsItsRules) {
  const auto grammar = world().compile(Kind::Ebnf, "root ::= expr\nexpr ::= [0-9]+ | \"(\" expr [+*] expr \")\"\n");
  EXPECT_TRUE(world().matches(*grammar, "(1+(22*3))"));
  EXPECT_TRUE(world().matches(*grammar, "7"));
  EXPECT_FALSE(world().matches(*grammar, "(1+2"));
  EXPECT_FALSE(world().matches(*grammar, "1+2"));
}

TEST_F(Grammar, StructuralTagLeavesTextFreeAndBindsWhatIsInTheTag) {
  const auto grammar = world().compile(Kind::StructuralTag, R"({"type": "structural_tag", "format": {
    "type": "triggered_tags", "triggers": ["<tool>"], "tags": [{"begin": "<tool>", "content": {"type": "json_schema",
    "json_schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}, "end": "</tool>"}]}})");
  EXPECT_TRUE(world().matches(*grammar, "free text, even {"));
  EXPECT_TRUE(world().matches(*grammar, R"(so: <tool>{"a": 3}</tool> and <tool>{"a": -1}</tool>)"));
  EXPECT_FALSE(world().matches(*grammar, R"(<tool>{"a": "3"}</tool>)"));
  EXPECT_FALSE(world().matches(*grammar, R"(<tool>{"a": 3})"));
}

TEST_F(Grammar, TagsMayBeSpecialTokensButTextMayNot) {
  const int32_t special = world().tokenizer->token_to_id("<s>").value();
  const auto tag = world().compile(Kind::StructuralTag, R"({"type": "structural_tag", "format": {"type": "tag",
    "begin": "<s>", "content": {"type": "json_schema", "json_schema": {"type": "integer"}}, "end": "!"}})");
  auto matcher = tag->matcher();
  EXPECT_TRUE(mask_allows(world().mask(*matcher), special));
  EXPECT_TRUE(matcher->accept(special));
  EXPECT_FALSE(matcher->accept(special));

  matcher = world().compile(Kind::JsonSchema, R"({"type": "string"})")->matcher();
  EXPECT_TRUE(matcher->accept('"'));
  const auto words = world().mask(*matcher);
  EXPECT_FALSE(mask_allows(words, special));
  EXPECT_FALSE(matcher->accept(special));
  EXPECT_TRUE(mask_allows(words, world().tokenizer->token_to_id("<tool>").value()));
  for (auto id = static_cast<int32_t>(world().tokenizer->vocab_size()); id < world().vocab_size; ++id)
    EXPECT_FALSE(mask_allows(words, id)) << id;
}

TEST_F(Grammar, RollbackRestoresTheMasks) {
  const auto grammar = world().compile(Kind::JsonSchema, kSchemas[0]);
  const auto matcher = grammar->matcher();
  std::mt19937 random(5);
  std::vector<std::vector<int32_t>> masks;
  std::vector<int32_t> tokens = world().tokenizer->encode_ids(R"({"name": "ö x", "age": 42})", false);
  for (const int32_t token : tokens) {
    masks.push_back(world().mask(*matcher));
    ASSERT_TRUE(matcher->accept(token));
  }
  EXPECT_TRUE(matcher->is_terminated());  // nothing may follow but the end
  ASSERT_TRUE(matcher->accept(world().end));
  EXPECT_TRUE(matcher->is_terminated());
  EXPECT_FALSE(matcher->accept('x'));
  EXPECT_EQ(world().mask(*matcher), std::vector<int32_t>(mask_words(world().vocab_size)));
  matcher->rollback(1);
  for (int i = 0; i < 200; ++i) {
    const auto at = static_cast<std::size_t>(random() % tokens.size());
    matcher->rollback(static_cast<int64_t>(tokens.size() - at));
    EXPECT_EQ(world().mask(*matcher), masks[at]);
    EXPECT_FALSE(matcher->is_terminated());
    for (std::size_t j = at; j < tokens.size(); ++j) ASSERT_TRUE(matcher->accept(tokens[j]));
  }
  EXPECT_THROW(matcher->rollback(static_cast<int64_t>(tokens.size()) + 1), ConfigError);
  EXPECT_THROW(matcher->rollback(-1), ConfigError);
}

TEST_F(Grammar, EndsByItselfWhereNoStopTokenIsGiven) {
  const auto compiler = make_grammar_compiler(world().tokenizer, world().vocab_size, {});
  const auto matcher = compiler->compile({.kind = Kind::Choice, .choices = {"ab", "b1"}})->matcher();
  EXPECT_FALSE(matcher->is_terminated());
  EXPECT_TRUE(matcher->accept('b'));
  EXPECT_FALSE(matcher->is_terminated());
  EXPECT_TRUE(matcher->accept('1'));
  EXPECT_TRUE(matcher->is_terminated());
}

TEST_F(Grammar, WrongGrammarsAreRefusedWithTheReason) {
  expect_refused(Kind::JsonSchema, "{", "the JSON schema");
  expect_refused(Kind::JsonSchema, "3", "must be a schema: an object or a boolean; got an integer");
  expect_refused(Kind::JsonSchema, R"({"type": "strng"})", "strng");
  expect_refused(Kind::JsonSchema, R"({"type": "object", "properties": 3})", "#/properties must be an object");
  expect_refused(Kind::JsonSchema, R"({"type": "object", "properties": {"a": {"not": {"type": "null"}}}})",
                 "#/properties/a has \"not\"");
  expect_refused(Kind::JsonSchema, R"({"type": "array", "uniqueItems": true})", "\"uniqueItems\"");
  expect_refused(Kind::JsonSchema, R"({"type": "array", "items": [{"type": "null"}]})", "prefixItems");
  expect_refused(Kind::JsonSchema, R"({"type": "object", "properties": {}, "anyOf": [{"type": "null"}]})",
                 "\"anyOf\" and \"properties\"");
  expect_refused(Kind::JsonSchema, R"({"pattern": "a"})", "no \"type\"");
  expect_refused(Kind::JsonSchema, R"({"type": "string", "enum": [3]})", "do not agree");
  expect_refused(Kind::JsonSchema, R"({"type": "number", "multipleOf": 0.5})", "multipleOf");
  expect_refused(Kind::JsonSchema, R"({"type": "string", "pattern": "a+", "maxLength": 3})", "maxLength");
  expect_refused(Kind::JsonSchema, R"({"type": "integer", "minimum": 5, "maximum": 2})", "the JSON schema");
  expect_refused(Kind::JsonSchema, R"({"$ref": "other.json"})", "other.json");
  expect_refused(Kind::JsonSchema, R"({"$ref": "#/$defs/none"})", "$defs");
  expect_refused(Kind::JsonSchema, R"({"type": "string", "pattern": "(a"})", "the JSON schema");
  expect_refused(Kind::JsonSchema, R"({"type": "string", "pattern": "ö[^a]"})", "cannot be enforced in a JSON string");
  expect_refused(Kind::JsonSchema, R"({"type": "string", "pattern": "\"+"})", "cannot be enforced in a JSON string");
  expect_refused(Kind::JsonSchema, "false", "cannot accept any value");
  expect_refused(Kind::JsonSchema, R"({"allOf": [{"type": "null"}, {"type": "null"}]})", "allOf");
  expect_refused(Kind::Regex, "(a", "the regular expression");
  expect_refused(Kind::Regex, "a{3,1}", "the regular expression");
  expect_refused(Kind::Regex, R"((a)\1)", "Backreference");
  expect_refused(Kind::Regex, "a(?=b)", "ookahead");
  expect_refused(Kind::Regex, "a\xFF", "valid UTF-8");
  expect_refused(Kind::Ebnf, "start ::= \"a\"", "root");
  expect_refused(Kind::Ebnf, "root ::= other", "other");
  expect_refused(Kind::Ebnf, "root ::= root", "no token");
  expect_refused(Kind::StructuralTag, "{}", "the structural tag");
  expect_refused(Kind::StructuralTag, R"({"type": "structural_tag", "format": {"type": "nope"}})", "nope");
  EXPECT_THROW(world().choice({}), ConfigError);
  EXPECT_THROW(world().choice({"\xFF"}), ConfigError);
}

// A refusal must not depend on what was compiled before.
TEST_F(Grammar, ARefusedGrammarIsRefusedAgain) {
  for (int i = 0; i < 3; ++i)
    expect_refused(Kind::JsonSchema, R"({"type": "number", "multipleOf": 0.5})", "multipleOf");
}

TEST_F(Grammar, RefusesAVocabularyThatIsTooSmallAndUnknownStopTokens) {
  EXPECT_THROW(make_grammar_compiler(world().tokenizer, 10, {}), ConfigError);
  EXPECT_THROW(make_grammar_compiler(world().tokenizer, 400, {400}), ConfigError);
  EXPECT_THROW(make_grammar_compiler(nullptr, 400, {}), ConfigError);
  const auto matcher = world().choice({"a"})->matcher();
  std::vector<int32_t> words(1);
  EXPECT_THROW(matcher->fill_mask(words), ConfigError);
  EXPECT_FALSE(matcher->accept(-1));
  EXPECT_FALSE(matcher->accept(1 << 20));
}

TEST_F(Grammar, CompilesOnManyThreads) {
  std::vector<std::thread> threads;
  std::vector<int> failures(4);
  for (std::size_t t = 0; t < failures.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 30; ++i) {
        const std::string word = "w" + std::to_string(i % 7);
        if (!world().matches(*world().compile(Kind::Regex, word + "[xy]*"), word + "xyx")) ++failures[t];
        if (!world().matches(*world().choice({word, "no"}), "no")) ++failures[t];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures, std::vector<int>(4));
}

TEST_F(Grammar, KeepsCompiledGrammarsUpToABound) {
  const auto first = world().compile(Kind::Regex, "first");
  EXPECT_EQ(world().compile(Kind::Regex, "first"), first);
  for (int i = 0; i < 300; ++i) world().compile(Kind::Regex, "r" + std::to_string(i));
  EXPECT_NE(world().compile(Kind::Regex, "first"), first);
  EXPECT_TRUE(world().matches(*first, "first"));  // still usable
}

TEST(ApplyMask, LeavesTheAllowedLogitsAlone) {
  std::vector<float> logits(70);
  std::vector<int32_t> words(3);
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    for (auto& word : words) word = round == 0 ? -1 : static_cast<int32_t>(random() & random());
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i);
    apply_mask(logits, words);
    for (int32_t i = 0; i < 70; ++i) {
      const float logit = logits[static_cast<std::size_t>(i)];
      EXPECT_TRUE(mask_allows(words, i) ? logit == static_cast<float>(i) : std::isinf(logit) && logit < 0) << i;
    }
  }
  std::vector<float> longer(100, 1.0F);  // padded logits: those without a bit are never allowed
  apply_mask(longer, std::vector<int32_t>{-1});
  EXPECT_EQ(longer[31], 1.0F);
  EXPECT_TRUE(std::isinf(longer[32]) && std::isinf(longer[99]));
}

}  // namespace
}  // namespace easydel::serve::test
