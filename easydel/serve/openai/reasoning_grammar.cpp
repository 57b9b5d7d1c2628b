// Grammars of answers that begin with reasoning: the grammar holds from its end on.
#include "easydel/serve/openai/chat_prompt.h"
#include "easydel/serve/openai/sampling_fields.h"

namespace easydel::serve {
namespace {

Json tag_format(const GrammarSpec& grammar) {
  switch (grammar.kind) {
    case GrammarSpec::Kind::JsonObject:
      return Json::object({{"type", "json_schema"}, {"json_schema", Json::object({{"type", "object"}})}});
    case GrammarSpec::Kind::JsonSchema:
      return Json::object({{"type", "json_schema"}, {"json_schema", Json::parse(grammar.text)}});
    case GrammarSpec::Kind::Regex:
      return Json::object({{"type", "regex"}, {"pattern", grammar.text}});
    case GrammarSpec::Kind::Ebnf:
      return Json::object({{"type", "grammar"}, {"grammar", grammar.text}});
    case GrammarSpec::Kind::Choice: {
      Json elements = Json::array();
      for (const std::string& choice : grammar.choices) {
        elements.push_back(Json::object({{"type", "const_string"}, {"value", choice}}));
      }
      return Json::object({{"type", "or"}, {"elements", std::move(elements)}});
    }
    case GrammarSpec::Kind::StructuralTag: break;
  }
  const Json tag = Json::parse(grammar.text, {.where = "structural_tag"});
  const Json* format = tag.find("format");
  require_field(format != nullptr, "response_format",
                "a structural tag for a model that reasons first must have a \"format\".");
  return *format;
}

}  // namespace

GrammarSpec after_reasoning(const GrammarSpec& grammar, const MessageFormat& format) {
  if (format.reasoning.empty() || !format.starts_in_reasoning) return grammar;
  require_field(format.reasoning != "harmony", "response_format",
                "answers in the harmony format cannot be bound to a grammar.");
  // The tag is already open, so that it begins with nothing.
  Json reasoning = Json::object({{"type", "tag"},
                                 {"begin", ""},
                                 {"content", Json::object({{"type", "any_text"}})},
                                 {"end", "</think>"}});
  Json sequence = Json::object(
      {{"type", "sequence"}, {"elements", Json::array({std::move(reasoning), tag_format(grammar)})}});
  const Json tag = Json::object({{"type", "structural_tag"}, {"format", std::move(sequence)}});
  return {.kind = GrammarSpec::Kind::StructuralTag, .text = tag.dump(), .choices = {}};
}

}  // namespace easydel::serve
