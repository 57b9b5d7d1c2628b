// Grammars that are made to be slow, deep or large: refused, or compiled within a bound.
#include <gtest/gtest.h>

#include <chrono>

#include "easydel/core/error.h"
#include "grammar_fixture.h"

namespace easydel::serve::test {
namespace {

using Kind = GrammarSpec::Kind;

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

std::string many_properties(int count, const std::string& schema) {
  std::string out = R"({"type": "object", "properties": {)";
  for (int i = 0; i < count; ++i)
    out += (i > 0 ? "," : "") + std::string("\"property") + std::to_string(i) + "\":" + schema;
  return out + "}}";
}

struct Hostile {
  const char* name;
  Kind kind;
  std::string text;
};

std::vector<Hostile> hostile_grammars() {
  return {
      {"long schema", Kind::JsonSchema, many_properties(30000, R"({"type": "string"})")},
      {"many properties", Kind::JsonSchema, many_properties(5000, R"({"type": "string"})")},
      {"many bounded strings", Kind::JsonSchema, many_properties(500, R"({"type": "string", "maxLength": 100000})")},
      {"deep schema", Kind::JsonSchema, repeated(R"({"type":"array","items":)", 20000) + "true" + repeated("}", 20000)},
      {"deep enough schema", Kind::JsonSchema,
       repeated(R"({"type":"array","items":)", 120) + "true" + repeated("}", 120)},
      {"deep brackets", Kind::JsonSchema, repeated("[", 100000)},
      {"long strings", Kind::JsonSchema, R"({"type": "string", "minLength": 2000000000})"},
      {"long arrays", Kind::JsonSchema, R"({"type": "array", "items": {"type": "integer"}, "minItems": 2000000000})"},
      {"nested long arrays", Kind::JsonSchema,
       R"({"type":"array","minItems":3000,"items":{"type":"array","minItems":3000,"items":{"type":"array","minItems":3000,"items":{"type":"null"}}}})"},
      {"many anyOf", Kind::JsonSchema,
       R"({"anyOf": [)" + repeated(R"({"type": "string"},)", 5000) + R"({"type": "null"}]})"},
      {"reference to itself", Kind::JsonSchema, R"({"$ref": "#"})"},
      {"circle of references", Kind::JsonSchema,
       R"({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})"},
      {"large integers", Kind::JsonSchema,
       R"({"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807})"},
      {"larger integers", Kind::JsonSchema, R"({"type": "integer", "minimum": 1e300})"},
      {"precise numbers", Kind::JsonSchema, R"({"type": "number", "minimum": 1.0000000000000002, "maximum": 1e308})"},
      {"pattern of repeats", Kind::JsonSchema, R"({"type": "string", "pattern": "((a{100}){100}){100}"})"},
      {"deep expression", Kind::Regex, repeated("(", 50000) + "a" + repeated(")", 50000)},
      {"deep enough expression", Kind::Regex, repeated("(", 120) + "a" + repeated(")", 120)},
      {"repeats of repeats", Kind::Regex, "(((a{1000}){1000}){1000}){1000}"},
      {"long repeat", Kind::Regex, "a{1,100000000}"},
      {"long repeat of a class", Kind::Regex, R"([^\x00]{1,1000000})"},
      {"exponential automaton", Kind::Regex, "(a|b)*a(a|b){40}"},
      {"long expression", Kind::Regex, repeated("ab|", 60000)},
      {"stars of stars", Kind::Regex, "((((a*)*)*)*)*"},
      {"deep groups", Kind::Ebnf, "root ::= " + repeated("(", 50000) + "\"a\"" + repeated(")", 50000)},
      {"left recursion", Kind::Ebnf, "root ::= root \"a\" | \"b\""},
      {"empty recursion", Kind::Ebnf, "root ::= root root | \"\""},
      {"long repeat of a rule", Kind::Ebnf, "root ::= x{1,1000000}\nx ::= y{1,1000000}\ny ::= \"a\" | \"b\" x"},
      {"many rules", Kind::Ebnf,
       "root ::= r0\n" +
           [] {
             std::string rules;
             for (int i = 0; i < 8000; ++i)
               rules += "r" + std::to_string(i) + " ::= \"a\" r" + std::to_string(i + 1) + "\n";
             return rules + "r8000 ::= \"b\"\n";
           }()},
      {"deep tags", Kind::StructuralTag,
       R"({"type":"structural_tag","format":)" + repeated(R"({"type":"sequence","elements":[)", 5000) +
           repeated("]}", 5000) + "}"},
  };
}

TEST(HostileGrammar, EndsInAnErrorOrIsCompiledInBoundedTime) {
  const GrammarWorld world;
  if (!world.compiler) GTEST_SKIP() << "this build has no xgrammar";
  std::mt19937 random(1);
  for (const Hostile& each : hostile_grammars()) {
    const auto begin = std::chrono::steady_clock::now();
    std::string outcome = "compiled";
    try {
      draw(world, *world.compile(each.kind, each.text), random, 60);
    } catch (const ConfigError& error) {
      outcome = std::string(error.what()).substr(0, 150);
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LT(seconds, 20) << each.name << ": " << outcome;
  }
}

}  // namespace
}  // namespace easydel::serve::test
