#include "easydel/serve/grammar/grammar_text.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/core/text/utf8.h"
#include "easydel/serve/grammar/schema_check.h"

namespace easydel::serve {
namespace {

constexpr int kMaxGrammarDepth = 128;

Json parse_grammar_json(const GrammarSpec& spec) {
  try {
    return Json::parse(spec.text, {.where = std::string(grammar_kind_name(spec.kind)), .max_depth = kMaxGrammarDepth});
  } catch (const FormatError& error) {
    throw ConfigError(error.what());
  }
}

// Brackets in character classes and in quotes are counted too, which only makes the limit stricter for odd texts.
void check_grammar_depth(const GrammarSpec& spec) {
  int depth = 0, deepest = 0;
  for (std::size_t i = 0; i < spec.text.size(); ++i) {
    const char c = spec.text[i];
    if (c == '\\') {
      ++i;
    } else if (c == '(') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ')') {
      --depth;
    }
  }
  require<ConfigError>(deepest <= kMaxGrammarDepth, "[grammar] ", grammar_kind_name(spec.kind),
                       " must not nest groups deeper than ", kMaxGrammarDepth, "; got ", deepest, ".");
}

void append_ebnf_literal(std::string& out, std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\u00";
      out += kDigits[byte / 16];
      out += kDigits[byte % 16];
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace

std::string_view grammar_kind_name(GrammarSpec::Kind kind) {
  switch (kind) {
    case GrammarSpec::Kind::JsonObject: return "a JSON object";
    case GrammarSpec::Kind::JsonSchema: return "the JSON schema";
    case GrammarSpec::Kind::Regex: return "the regular expression";
    case GrammarSpec::Kind::Ebnf: return "the EBNF grammar";
    case GrammarSpec::Kind::Choice: return "the list of choices";
    case GrammarSpec::Kind::StructuralTag: return "the structural tag";
  }
  return "the grammar";
}

void check_grammar(const GrammarSpec& spec) {
  using Kind = GrammarSpec::Kind;
  if (spec.kind == Kind::JsonObject) return;
  std::size_t size = spec.text.size();
  for (const std::string& choice : spec.choices) {
    size += choice.size() + 8;
    require<ConfigError>(invalid_utf8(choice) == std::string_view::npos, "[grammar] a choice must be valid UTF-8.");
  }
  require<ConfigError>(size <= kMaxGrammarText, "[grammar] ", grammar_kind_name(spec.kind), " must not exceed ",
                       kMaxGrammarText, " bytes; got ", size, ".");
  require<ConfigError>(invalid_utf8(spec.text) == std::string_view::npos && spec.text.find('\0') == std::string::npos,
                       "[grammar] ", grammar_kind_name(spec.kind), " must be valid UTF-8 without null characters.");
  require<ConfigError>(spec.kind != Kind::Choice || !spec.choices.empty(),
                       "[grammar] the list of choices must not be empty.");
  if (spec.kind == Kind::JsonSchema) check_schema(parse_grammar_json(spec));
  if (spec.kind == Kind::StructuralTag) check_structural_tag(parse_grammar_json(spec));
  if (spec.kind == Kind::Regex || spec.kind == Kind::Ebnf) check_grammar_depth(spec);
}

std::string choice_ebnf(const std::vector<std::string>& choices) {
  std::string out = "root ::= ";
  for (const std::string& choice : choices) {
    if (out.back() == '"') out += " | ";
    append_ebnf_literal(out, choice);
  }
  return out + "\n";
}

}  // namespace easydel::serve
