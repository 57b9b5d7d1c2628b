// Formats whose calls are marked up around names and values: qwen3 coder and deepseek.
#include <utility>

#include "easydel/core/error.h"
#include "easydel/serve/output/json_scanner.h"
#include "easydel/serve/output/parsers.h"
#include "easydel/serve/output/text_parser.h"

namespace easydel::serve {

namespace {

constexpr std::string_view kParameterEnd = "</parameter>";

bool has_json_type(const Json& schema, std::string_view type) {
  const Json* given = schema.find("type");
  if (given == nullptr) return false;
  if (given->is_string()) return given->as_string() == type;
  if (!given->is_array()) return false;
  for (const Json& one : given->as_array()) {
    if (one.is_string() && one.as_string() == type) return true;
  }
  return false;
}

// A value whose type is not known to be a string: JSON as it is written, and anything else as a string.
std::string json_of_value(const std::string& text, const Json& schema) {
  if (text == "null" || text == "None") return "null";
  if (has_json_type(schema, "string")) return quoted_json(text);
  if (text == "True") return "true";
  if (text == "False") return "false";
  if (text.empty() || text.front() == '"') return quoted_json(text);  // strings are written without quotes
  try {
    Json::parse(text);  // one value; the scanner refuses NaN, which this accepts
    return is_json_object("{\"value\":" + text + "}") ? text : quoted_json(text);
  } catch (const Error&) {
    return quoted_json(text);
  }
}

// <tool_call><function=NAME><parameter=KEY>VALUE</parameter>…</function></tool_call>; the outermost tag may be missing.
class Qwen3CoderParser final : public TextParser {
 public:
  explicit Qwen3CoderParser(std::vector<ToolSpec> tools) : tools_(std::move(tools)) {}

 private:
  static bool is_name(char c) { return c != '<' && c != '>' && !is_parser_space(c); }
  static bool is_key(char c) { return c != '<' && c != '>' && c != '\n'; }

  ParseTask<bool> call() override {
    const std::size_t mark = input_.at;
    const bool opened = co_await literal("<tool_call>");
    if (opened) co_await spaces();
    const bool is_function = co_await literal("<function=");
    if (!is_function && !opened) co_return false;
    std::string name;
    if (is_function) name = co_await take_while(is_name);
    bool closed = false;
    if (!name.empty()) closed = co_await literal(">");
    if (!closed) {
      reject(mark);
      co_return true;
    }
    begin_call(name);
    const bool complete = co_await parameters(name);
    if (complete && opened) {
      const std::size_t behind = input_.at;
      co_await spaces();
      const bool ended = co_await literal("</tool_call>");
      if (!ended) input_.at = behind;
    }
    co_return true;
  }

  ParseTask<bool> parameters(const std::string& function) {
    for (bool is_first = true;; is_first = false) {
      input_.forget();
      const std::size_t mark = input_.at;
      co_await spaces();
      const bool ended = co_await literal("</function>");
      if (ended) {
        add_arguments(is_first ? "{}" : "}");
        co_return true;
      }
      const bool opened = co_await literal("<parameter=");
      std::string key;
      bool closed = false;
      if (opened) {
        key = co_await take_while(is_key);
        closed = co_await literal(">");
      }
      if (!closed) {
        reject(mark);
        co_return false;
      }
      add_arguments((is_first ? "{" : ", ") + quoted_json(key) + ": ");
      const bool complete = co_await value(parameter_schema(function, key));
      if (!complete) co_return false;
    }
  }

  Json parameter_schema(std::string_view function, std::string_view key) const {
    for (const ToolSpec& tool : tools_) {
      if (tool.name != function) continue;
      const Json* properties = tool.parameters.find("properties");
      const Json* found = properties == nullptr ? nullptr : properties->find(key);
      if (found != nullptr) return *found;
    }
    return {};
  }

  // The line breaks next to the tags do not count.
  ParseTask<bool> value(Json schema) {
    const Json* type = schema.find("type");
    const bool is_string = type != nullptr && type->is_string() && type->as_string() == "string";
    co_await literal("\n");
    if (is_string) add_arguments("\"");
    std::string held;
    while (true) {
      const std::size_t mark = input_.at;
      co_await literal("\n");
      const bool ended = co_await literal(kParameterEnd);
      if (ended) break;
      input_.at = mark;
      const int c = co_await peek();
      if (c < 0) {
        add_content(held);
        co_return false;
      }
      ++input_.at;
      if (is_string) {
        add_arguments(escaped_json(static_cast<char>(c)));
        input_.forget();
      } else {
        held += static_cast<char>(c);
      }
    }
    add_arguments(is_string ? "\"" : json_of_value(held, schema));
    co_return true;
  }

  std::vector<ToolSpec> tools_;
};

constexpr std::string_view kDeepseekCalls = "<｜tool▁calls▁begin｜>";
constexpr std::string_view kDeepseekCallsEnd = "<｜tool▁calls▁end｜>";
constexpr std::string_view kDeepseekCall = "<｜tool▁call▁begin｜>";
constexpr std::string_view kDeepseekCallEnd = "<｜tool▁call▁end｜>";
constexpr std::string_view kDeepseekSeparator = "<｜tool▁sep｜>";
constexpr std::string_view kDeepseekEnd = "<｜end▁of▁sentence｜>";

// V3 and R1 write function<sep>NAME and the arguments in a block of code, V3.1 writes NAME<sep> and the arguments.
class DeepseekParser final : public TextParser {
  ParseTask<bool> at_end() override {
    const std::size_t mark = input_.at;
    const bool found = co_await literal(kDeepseekEnd);
    const int c = co_await peek();
    if (found && c < 0) co_return true;
    input_.at = mark;
    co_return false;
  }

  static bool is_line(char c) { return c != '<' && c != '\n'; }

  ParseTask<bool> call() override {
    const std::size_t mark = input_.at;
    const bool outer = co_await literal(kDeepseekCalls);
    if (outer) co_await spaces();
    const bool opened = co_await literal(kDeepseekCall);
    if (!opened && !outer) co_return false;
    std::string name;
    if (opened) name = co_await call_name();
    const int c = co_await peek();
    if (name.empty() || c != '{') {
      reject(mark);
      co_return true;
    }
    begin_call(std::move(name));
    const bool complete = co_await json_object(nullptr);
    if (complete) co_await call_end();
    co_return true;
  }

  // Up to the brace of the arguments; empty where that is not what follows.
  ParseTask<std::string> call_name() {
    std::string name = co_await take_while(is_line);
    const bool separated = co_await literal(kDeepseekSeparator);
    if (!separated) co_return std::string();
    co_await spaces();
    const int c = co_await peek();
    if (c == '{') co_return name;
    if (name != "function") co_return std::string();
    name = co_await take_while(is_line);
    co_await spaces();
    const bool fenced = co_await literal("```json");
    if (!fenced) co_return std::string();
    co_await spaces();
    co_return name;
  }

  ParseTask<bool> after_spaces(std::string_view text) {
    const std::size_t behind = input_.at;
    co_await spaces();
    const bool found = co_await literal(text);
    if (!found) input_.at = behind;
    co_return found;
  }

  ParseTask<Unit> call_end() {
    co_await after_spaces("```");
    co_await after_spaces(kDeepseekCallEnd);
    co_await after_spaces(kDeepseekCallsEnd);
    co_return Unit{};
  }
};

}  // namespace

std::unique_ptr<MessageParser> make_qwen3_coder_parser(const std::vector<ToolSpec>& tools) {
  return std::make_unique<Qwen3CoderParser>(tools);
}
std::unique_ptr<MessageParser> make_deepseek_parser() { return std::make_unique<DeepseekParser>(); }

}  // namespace easydel::serve
