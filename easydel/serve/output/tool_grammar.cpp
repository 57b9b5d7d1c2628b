// Structural tags in the syntax of xgrammar 0.2.
#include "easydel/serve/output/tool_grammar.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/serve/output/parsers.h"
#include "easydel/serve/output/text_parser.h"

namespace easydel::serve {

namespace {

// How a format writes calls: begin and end of all of them, what is between two, and before and after the arguments.
struct CallSyntax {
  std::string open, separator, close;
  std::string before_name, after_name, after_arguments;
  std::string trigger;  // a prefix of what opens calls; text without it is free
  std::string style = "json";
  bool quoted_name = false;
};

CallSyntax json_syntax(std::string open, std::string separator, std::string close, std::string_view key) {
  return {.open = std::move(open),
          .separator = std::move(separator),
          .close = std::move(close),
          .before_name = "{\"name\": ",
          .after_name = ", \"" + std::string(key) + "\": ",
          .after_arguments = "}",
          .trigger = {},
          .quoted_name = true};
}

CallSyntax plain_syntax(std::string before_name, std::string after_name, std::string after_arguments,
                        std::string trigger) {
  CallSyntax syntax;
  syntax.before_name = std::move(before_name);
  syntax.after_name = std::move(after_name);
  syntax.after_arguments = std::move(after_arguments);
  syntax.trigger = std::move(trigger);
  return syntax;
}

CallSyntax deepseek_syntax(std::string before_name, std::string after_name, std::string after_arguments) {
  CallSyntax syntax = plain_syntax("<｜tool▁call▁begin｜>" + before_name, std::move(after_name),
                                   after_arguments + "<｜tool▁call▁end｜>", "<｜tool▁calls▁begin｜>");
  syntax.open = "<｜tool▁calls▁begin｜>";
  syntax.separator = "\n";
  syntax.close = "<｜tool▁calls▁end｜>";
  return syntax;
}

std::optional<CallSyntax> find_call_syntax(const std::string& format, bool parallel) {
  if (format == "hermes" || format == "qwen") {
    CallSyntax syntax = json_syntax("", "\n", "", "arguments");
    syntax.before_name = "<tool_call>\n" + syntax.before_name;
    syntax.after_arguments += "\n</tool_call>";
    syntax.trigger = "<tool_call>";
    return syntax;
  }
  if (format == "qwen3_coder") {
    CallSyntax syntax = plain_syntax("<tool_call>\n<function=", ">\n", "\n</function>\n</tool_call>", "<tool_call>");
    syntax.separator = "\n";
    syntax.style = "qwen_xml";
    return syntax;
  }
  if (format == "llama3_json") {
    CallSyntax syntax = json_syntax("", "; ", "", "parameters");
    syntax.trigger = "{\"name\": ";
    return syntax;
  }
  if (format == "mistral") {
    CallSyntax syntax = json_syntax("[TOOL_CALLS] [", ", ", "]", "arguments");
    syntax.trigger = "[TOOL_CALLS]";
    return syntax;
  }
  if (format == "mistral_v11") return plain_syntax("[TOOL_CALLS]", "[ARGS]", "", "[TOOL_CALLS]");
  if (format == "deepseek_v3") {
    return deepseek_syntax("function<｜tool▁sep｜>", "\n```json\n", "\n```");
  }
  if (format == "deepseek_v31") return deepseek_syntax("", "<｜tool▁sep｜>", "");
  if (format == "harmony") {  // <|call|> is a token that ends the answer, so that the grammar must end before it
    return plain_syntax("<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", "",
                        "<|channel|>commentary to=functions.");
  }
  if (format == "pythonic") return json_syntax("[", ", ", "]", "parameters");
  if (format == "json")
    return parallel ? json_syntax("[", ", ", "]", "arguments") : json_syntax("", "", "", "arguments");
  return std::nullopt;
}

Json tag_format(std::string_view begin, Json content, std::string_view end) {
  return Json::object({{"type", "tag"}, {"begin", begin}, {"content", std::move(content)}, {"end", end}});
}

Json sequence_format(Json::Array elements) {
  return Json::object({{"type", "sequence"}, {"elements", std::move(elements)}});
}

Json call_tag(const CallSyntax& syntax, const ToolSpec& tool, bool follows_schema) {
  const Json any = Json::object({{"type", "object"}});
  const bool has_schema = follows_schema && !tool.parameters.is_null();
  const Json content = Json::object(
      {{"type", "json_schema"}, {"json_schema", has_schema ? tool.parameters : any}, {"style", syntax.style}});
  const std::string name = syntax.quoted_name ? quoted_json(tool.name) : tool.name;
  return tag_format(syntax.before_name + name + syntax.after_name, content, syntax.after_arguments);
}

Json all_calls(const CallSyntax& syntax, const Json& tags, bool one) {
  Json calls = Json::object({{"type", "tags_with_separator"},
                             {"tags", tags},
                             {"separator", syntax.separator},
                             {"at_least_one", true},
                             {"stop_after_first", one}});
  return syntax.open.empty() ? calls : tag_format(syntax.open, std::move(calls), syntax.close);
}

Json free_text_and_calls(const CallSyntax& syntax, const Json& tags, bool one) {
  const Json calls = all_calls(syntax, tags, one);
  if (syntax.trigger.empty()) {  // JSON alone: an answer that begins otherwise is text
    const Json text = Json::object({{"type", "regex"}, {"pattern", "([^\\[{ \\n\\r\\t][\\s\\S]*)?"}});
    return Json::object({{"type", "or"}, {"elements", Json::array({text, calls})}});
  }
  return Json::object({{"type", "triggered_tags"},
                       {"triggers", Json::array({syntax.trigger})},
                       {"tags", syntax.open.empty() ? tags : Json::array({calls})},
                       {"at_least_one", false},
                       {"stop_after_first", one}});
}

Json any_of_formats(const std::vector<Json>& formats) {
  return formats.size() == 1 ? formats.front() : Json::object({{"type", "or"}, {"elements", Json(formats)}});
}

// What may come before the calls; null for nothing.
Json reasoning_prefix(const MessageFormat& format) {
  const auto any_text = [] { return Json::object({{"type", "any_text"}}); };
  if (format.reasoning == "harmony" || format.tools == "harmony") {
    const std::string_view open = format.starts_in_reasoning ? "" : "<|channel|>analysis<|message|>";
    Json text = any_text();
    text["excludes"] = Json::array({"<|start|>", "<|channel|>", "<|message|>", "<|call|>", "<|return|>"});
    const Json next = Json::object({{"type", "const_string"}, {"value", "<|start|>assistant"}});
    Json message = sequence_format({tag_format(open, text, "<|end|>"), next});
    return format.starts_in_reasoning ? message : Json::object({{"type", "optional"}, {"content", message}});
  }
  const ReasoningTags* tags = find_reasoning_tags(format.reasoning);
  if (tags == nullptr) return {};
  const bool inside = format.starts_in_reasoning || tags->starts_inside;
  std::vector<Json> blocks;
  for (const std::string_view open : tags->open) {
    blocks.push_back(tag_format(inside ? "" : open, any_text(), tags->close.front()));
    if (inside) break;
  }
  const Json breaks = Json::object({{"type", "regex"}, {"pattern", "\\n{0,2}"}});
  Json block = sequence_format({any_of_formats(blocks), breaks});
  return inside ? block : Json::object({{"type", "optional"}, {"content", block}});
}

}  // namespace

std::optional<GrammarSpec> tool_grammar(const MessageFormat& format, const std::vector<ToolSpec>& tools,
                                        ToolChoice choice, bool parallel) {
  const bool forced = choice == ToolChoice::Required || choice == ToolChoice::Named;
  require<ConfigError>(!forced || !tools.empty(), "[tool_grammar] a forced tool_choice needs tools; got none.");
  require<ConfigError>(choice != ToolChoice::Named || tools.size() == 1,
                       "[tool_grammar] a named tool_choice is of one tool; got ", tools.size(), ".");
  const bool strict = std::any_of(tools.begin(), tools.end(), [](const ToolSpec& tool) { return tool.strict; });
  if (!forced && (choice == ToolChoice::None || !strict || format.tools == "pythonic")) return std::nullopt;
  const bool one = !parallel || choice == ToolChoice::Named || format.tools == "harmony";
  const std::optional<CallSyntax> syntax = find_call_syntax(format.tools, !one);
  if (!syntax) return std::nullopt;

  Json tags = Json::array();
  for (const ToolSpec& tool : tools) tags.push_back(call_tag(*syntax, tool, forced || tool.strict));
  const Json calls = forced ? all_calls(*syntax, tags, one) : free_text_and_calls(*syntax, tags, one);
  const Json prefix = reasoning_prefix(format);
  const Json whole = prefix.is_null() ? calls : sequence_format({prefix, calls});
  return GrammarSpec{.kind = GrammarSpec::Kind::StructuralTag,
                     .text = Json::object({{"type", "structural_tag"}, {"format", whole}}).dump(),
                     .choices = {}};
}

}  // namespace easydel::serve
