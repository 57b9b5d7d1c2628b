#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"
#include "easydel/serve/output/message_parser.h"
#include "easydel/serve/output/parsers.h"

namespace easydel::serve {

namespace {

constexpr std::string_view kHarmonyAnalysis = "<|channel|>analysis<|message|>";

std::string joined_formats(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void check_format_name(std::string_view what, const std::string& name, const std::vector<std::string>& known) {
  if (name.empty() || std::find(known.begin(), known.end(), name) != known.end()) return;
  const std::string near = nearest_name(name, known);
  fail<ConfigError>("[MessageFormat] unknown format of ", what, " ", quoted(name), "; known: ", joined_formats(known),
                    ".", near.empty() ? "" : " Did you mean \"" + near + "\"?");
}

std::unique_ptr<MessageParser> make_tool_parser(const std::string& name, const std::vector<ToolSpec>& tools) {
  if (name == "hermes" || name == "qwen") return make_hermes_parser();
  if (name == "qwen3_coder") return make_qwen3_coder_parser(tools);
  if (name == "llama3_json") return make_llama3_json_parser();
  if (name == "pythonic") return make_pythonic_parser();
  if (name == "mistral" || name == "mistral_v11") return make_mistral_parser();
  if (name == "deepseek_v3" || name == "deepseek_v31") return make_deepseek_parser();
  if (name == "json") return make_json_parser();
  return make_plain_parser();
}

// Which format of calls a template writes into the history, by strings that no other one has.
std::string detect_tools(std::string_view text) {
  const auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  if (has("<|channel|>") && has("<|message|>")) return "harmony";
  if (has("<｜tool▁calls▁begin｜>")) return has("```json") ? "deepseek_v3" : "deepseek_v31";
  if (has("[TOOL_CALLS]")) return has("[ARGS]") ? "mistral_v11" : "mistral";
  if (has("<tool_call>")) {
    if (has("<arg_key>")) return "";  // GLM's, which is not read
    return has("<function=") ? "qwen3_coder" : "hermes";
  }
  if (has("<|python_start|>") || has("func_name1(params_name1=")) return "pythonic";
  if (has("<|python_tag|>")) return "llama3_json";
  if (has("<|start_header_id|>") && has("\"parameters\"")) return "llama3_json";
  return "";
}

std::string detect_reasoning(std::string_view text) {
  const auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  if (has("<|channel|>") && has("<|message|>")) return "harmony";
  if (has("[THINK]")) return "mistral";
  if (has("<think>")) return "think";
  if (has("</think>")) return "deepseek_r1";  // the history is cut at the closing tag; the model opens it, or not
  if (has("Here is my thought process:")) return "granite";
  return "";
}

// Whether the part for the next answer writes an opening tag that the same string does not close.
bool opens_reasoning(std::string_view text, std::string_view tag) {
  const std::size_t part = text.rfind("add_generation_prompt");
  if (part == std::string_view::npos) return false;
  for (std::size_t at = text.find(tag, part); at != std::string_view::npos; at = text.find(tag, at + 1)) {
    const std::string_view rest = text.substr(at + tag.size());
    if (rest.substr(0, rest.find_first_of("'\"{}")).find("</think>") == std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> tool_formats() {
  return {"hermes",      "qwen",        "qwen3_coder",  "llama3_json", "pythonic", "mistral",
          "mistral_v11", "deepseek_v3", "deepseek_v31", "harmony",     "json"};
}

std::vector<std::string> reasoning_formats() { return {"think", "deepseek_r1", "mistral", "granite", "harmony"}; }

bool MessageFormat::needs_special_tokens() const {
  static constexpr std::string_view kPlain[] = {"", "hermes", "qwen", "qwen3_coder", "json"};
  return std::find(std::begin(kPlain), std::end(kPlain), tools) == std::end(kPlain) || reasoning == "mistral" ||
         reasoning == "harmony";
}

MessageFormat detect_message_format(std::string_view chat_template) {
  MessageFormat format{.tools = detect_tools(chat_template), .reasoning = detect_reasoning(chat_template)};
  if (format.reasoning == "think") format.starts_in_reasoning = opens_reasoning(chat_template, "<think>");
  return format;
}

bool ends_in_reasoning(const MessageFormat& format, std::string_view prompt) {
  const std::size_t last = prompt.find_last_not_of(" \n\t\r");
  const std::string_view text = prompt.substr(0, last == std::string_view::npos ? 0 : last + 1);
  if (format.reasoning == "harmony") return text.ends_with(kHarmonyAnalysis);
  const ReasoningTags* tags = find_reasoning_tags(format.reasoning);
  return tags != nullptr &&
         std::any_of(tags->open.begin(), tags->open.end(), [&](std::string_view open) { return text.ends_with(open); });
}

std::unique_ptr<MessageParser> make_message_parser(const MessageFormat& format, const std::vector<ToolSpec>& tools) {
  check_format_name("tools", format.tools, tool_formats());
  check_format_name("reasoning", format.reasoning, reasoning_formats());
  if (format.tools == "harmony" || format.reasoning == "harmony") {
    // One stream of messages carries both.
    require<ConfigError>((format.tools == "harmony" || format.tools.empty()) &&
                             (format.reasoning == "harmony" || format.reasoning.empty()),
                         "[MessageFormat] harmony must be used for both tools and reasoning; got tools ",
                         quoted(format.tools), " and reasoning ", quoted(format.reasoning), ".");
    return make_harmony_parser(format.starts_in_reasoning, format.tools == "harmony");
  }
  auto parser = make_tool_parser(format.tools, tools);
  const ReasoningTags* known = find_reasoning_tags(format.reasoning);
  if (known == nullptr) return parser;
  ReasoningTags tags = *known;
  tags.starts_inside = tags.starts_inside || format.starts_in_reasoning;
  return make_reasoning_parser(std::move(tags), std::move(parser));
}

}  // namespace easydel::serve
