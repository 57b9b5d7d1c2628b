// Grammars of answers that begin with reasoning: the grammar holds from its end on. Structural tags of xgrammar 0.2.
#include "easydel/serve/openai/sampling_fields.h"
#include "easydel/serve/output/parsers.h"

namespace easydel::serve {
namespace {

Json after_choice(const std::vector<std::string>& choices) {
  Json elements = Json::array();
  for (const std::string& choice : choices) {
    elements.push_back(Json::object({{"type", "const_string"}, {"value", choice}}));
  }
  return Json::object({{"type", "or"}, {"elements", std::move(elements)}});
}

// The grammar as a part of a structural tag.
Json after_format(const GrammarSpec& grammar) {
  switch (grammar.kind) {
    case GrammarSpec::Kind::JsonObject:
      return Json::object({{"type", "json_schema"}, {"json_schema", Json::object({{"type", "object"}})}});
    case GrammarSpec::Kind::JsonSchema:
      return Json::object(
          {{"type", "json_schema"}, {"json_schema", Json::parse(grammar.text, {.where = "JSON schema"})}});
    case GrammarSpec::Kind::Regex: return Json::object({{"type", "regex"}, {"pattern", grammar.text}});
    case GrammarSpec::Kind::Ebnf: return Json::object({{"type", "grammar"}, {"grammar", grammar.text}});
    case GrammarSpec::Kind::Choice: return after_choice(grammar.choices);
    case GrammarSpec::Kind::StructuralTag: break;
  }
  const Json tag = Json::parse(grammar.text, {.where = "structural_tag"});
  const Json* format = tag.find("format");
  require_field(format != nullptr, "response_format",
                "a structural tag for a model that reasons first must have a \"format\".");
  return *format;
}

Json after_block(std::string_view open, std::string_view close) {
  return Json::object(
      {{"type", "tag"}, {"begin", open}, {"content", Json::object({{"type", "any_text"}})}, {"end", close}});
}

// Must come when the prompt is inside the reasoning already, and may otherwise.
Json after_maybe(bool is_inside, Json block) {
  return is_inside ? block : Json::object({{"type", "optional"}, {"content", std::move(block)}});
}

}  // namespace

GrammarSpec after_reasoning(const GrammarSpec& grammar, const MessageFormat& format) {
  Json elements = Json::array();
  if (format.reasoning == "harmony") {
    // As in tool_grammar: the markers of other messages are no part of the analysis.
    const std::string_view open = format.starts_in_reasoning ? "" : "<|channel|>analysis<|message|>";
    Json block = after_block(open, "<|end|>");
    block["content"]["excludes"] = Json::array({"<|start|>", "<|channel|>", "<|message|>", "<|call|>", "<|return|>"});
    const Json next = Json::object({{"type", "const_string"}, {"value", "<|start|>assistant"}});
    const Json both = Json::object({{"type", "sequence"}, {"elements", Json::array({block, next})}});
    elements.push_back(after_maybe(format.starts_in_reasoning, both));
    elements.push_back(Json::object({{"type", "const_string"}, {"value", "<|channel|>final<|message|>"}}));
  } else if (const ReasoningTags* tags = find_reasoning_tags(format.reasoning)) {
    const bool is_inside = format.starts_in_reasoning || tags->starts_inside;
    const Json block = after_block(is_inside ? std::string_view() : tags->open.front(), tags->close.front());
    const Json breaks = Json::object({{"type", "regex"}, {"pattern", "\\n{0,2}"}});
    const Json both = Json::object({{"type", "sequence"}, {"elements", Json::array({block, breaks})}});
    elements.push_back(after_maybe(is_inside, both));
  } else {
    return grammar;
  }
  elements.push_back(after_format(grammar));
  const Json sequence = Json::object({{"type", "sequence"}, {"elements", std::move(elements)}});
  const Json tag = Json::object({{"type", "structural_tag"}, {"format", sequence}});
  return {.kind = GrammarSpec::Kind::StructuralTag, .text = tag.dump(), .choices = {}};
}

}  // namespace easydel::serve
