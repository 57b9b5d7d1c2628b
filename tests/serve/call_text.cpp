#include "tests/serve/call_text.h"

#include <gtest/gtest.h>

#include <ostream>

namespace easydel::serve {

namespace {

void append_message(Message& message, const MessageDelta& delta) {
  message.content += delta.content;
  message.reasoning += delta.reasoning;
  for (const ToolCallDelta& call : delta.tool_calls) {
    if (!call.name.empty()) {
      EXPECT_EQ(call.index, static_cast<int64_t>(message.calls.size()));
      EXPECT_FALSE(call.id.empty());
      message.calls.push_back({call.name, call.arguments});
    } else {
      EXPECT_EQ(call.index + 1, static_cast<int64_t>(message.calls.size()));
      message.calls.back().arguments += call.arguments;
    }
  }
}

std::string random_string(std::mt19937& random) {
  static const std::vector<std::string> parts = {
      "a",           "Zed", "\"", "'", "{", "}",    "[", "]",  "\\", "\n",  "\t",       "é",  "漢", "😀", "\b",
      "<tool_call>", "</",  "1",  ",", ":", "\x1f", " ", "|>", ";",  "```", "<|call|>", "｜", ")",  "=",  "\\n"};
  std::string text;
  for (std::size_t i = random() % 8; i > 0; --i) text += parts[random() % parts.size()];
  return text;
}

Json random_value(std::mt19937& random, int depth) {
  switch (random() % (depth < 3 ? 8 : 6)) {
    case 0: return random() % 2 == 0;
    case 1: return nullptr;
    case 2: return static_cast<int64_t>(random()) - (int64_t{1} << 31);
    case 3: return static_cast<double>(random() % 1000000) / 64.0 - 5000.25;
    case 6: {
      Json list = Json::array();
      for (std::size_t i = random() % 4; i > 0; --i) list.push_back(random_value(random, depth + 1));
      return list;
    }
    case 7: {
      Json object = Json::object();
      for (std::size_t i = random() % 4; i > 0; --i) object[random_string(random)] = random_value(random, depth + 1);
      return object;
    }
    default: return random_string(random);
  }
}

// As Python's repr writes it.
std::string write_python(const Json& value) {
  if (value.is_null()) return "None";
  if (value.is_bool()) return value.as_bool() ? "True" : "False";
  if (value.is_number()) return value.dump();
  std::string text;
  if (value.is_string()) {
    for (const char c : value.as_string()) {
      if (c == '\\' || c == '\'') text += '\\';
      if (c == '\n') {
        text += "\\n";
      } else if (c == '\x1f') {
        text += "\\x1f";
      } else {
        text += c;
      }
    }
    return "'" + text + "'";
  }
  if (value.is_array()) {
    for (const Json& item : value.as_array()) text += (text.empty() ? "" : ", ") + write_python(item);
    return "[" + text + "]";
  }
  for (const auto& [key, item] : value.as_object()) {
    text += (text.empty() ? "" : ", ") + write_python(Json(key)) + ": " + write_python(item);
  }
  return "{" + text + "}";
}

std::string write_python_call(const RandomCall& call) {
  std::string text;
  for (const auto& [key, item] : call.arguments.as_object()) {
    text += (text.empty() ? "" : ", ") + key + "=" + write_python(item);
  }
  return call.name + "(" + text + ")";
}

std::string write_xml_call(const RandomCall& call) {
  std::string text = "<tool_call>\n<function=" + call.name + ">\n";
  for (const auto& [key, item] : call.arguments.as_object()) {
    text += "<parameter=" + key + ">\n" + (item.is_string() ? item.as_string() : item.dump()) + "\n</parameter>\n";
  }
  return text + "</function>\n</tool_call>";
}

std::string write_call(const RandomCall& call, const std::string& format) {
  const std::string json = call.arguments.dump();
  const std::string name = Json(call.name).dump();
  const std::string object = "{\"name\": " + name + ", \"arguments\": " + json + "}";
  if (format == "hermes" || format == "qwen") return "<tool_call>\n" + object + "\n</tool_call>\n";
  if (format == "qwen3_coder") return write_xml_call(call) + "\n";
  if (format == "pythonic") return write_python_call(call);
  if (format == "llama3_json") return "{\"name\": " + name + ", \"parameters\": " + call.arguments.dump(1) + "}";
  if (format == "mistral_v11") return "[TOOL_CALLS]" + call.name + "[ARGS]" + json;
  if (format == "deepseek_v3") {
    return "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" + call.name + "\n```json\n" + json +
           "\n```<｜tool▁call▁end｜>";
  }
  if (format == "deepseek_v31")
    return "<｜tool▁call▁begin｜>" + call.name + "<｜tool▁sep｜>" + json + "<｜tool▁call▁end｜>";
  if (format == "harmony") {
    return "<|start|>assistant<|channel|>commentary to=functions." + call.name + " <|constrain|>json<|message|>" +
           json + "<|call|>";
  }
  return object;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Message& message) {
  out << "content " << testing::PrintToString(message.content) << ", reasoning "
      << testing::PrintToString(message.reasoning);
  for (const ReadCall& call : message.calls) out << ", " << call.name << "(" << call.arguments << ")";
  return out;
}

Message read_whole(const MessageFormat& format, std::string_view text) {
  return read_pieces(format, text, [&] { return text.size(); });
}

Message read_pieces(const MessageFormat& format, std::string_view text, const std::function<std::size_t()>& cut,
                    const std::vector<ToolSpec>& tools) {
  const auto parser = make_message_parser(format, tools);
  Message message;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, cut());
    append_message(message, parser->feed(piece));
    text.remove_prefix(piece.size());
  }
  append_message(message, parser->finish());
  return message;
}

std::vector<RandomCall> random_calls(std::mt19937& random) {
  std::vector<RandomCall> calls(1 + random() % 3);
  for (RandomCall& call : calls) {
    call.name = "tool_" + std::to_string(random() % 100) + "_" + std::to_string(&call - calls.data());  // each its own
    call.arguments = Json::object();
    for (std::size_t i = random() % 5; i > 0; --i) {
      call.arguments["key" + std::to_string(i)] = random_value(random, 0);
    }
  }
  return calls;
}

std::string write_calls(const std::vector<RandomCall>& calls, const std::string& format) {
  std::string text;
  const std::string separator = format == "llama3_json"                                           ? "; "
                                : format == "mistral" || format == "json" || format == "pythonic" ? ", "
                                                                                                  : "";
  for (const RandomCall& call : calls) text += (text.empty() ? "" : separator) + write_call(call, format);
  if (format == "mistral") return "[TOOL_CALLS] [" + text + "]";
  if (format == "json" || format == "pythonic") return "[" + text + "]";
  if (format.starts_with("deepseek")) return "<｜tool▁calls▁begin｜>" + text + "<｜tool▁calls▁end｜>";
  return text;
}

std::vector<ToolSpec> tools_of(const std::vector<RandomCall>& calls) {
  std::vector<ToolSpec> tools;
  for (const RandomCall& call : calls) {
    Json properties = Json::object();
    for (const auto& [key, item] : call.arguments.as_object()) {
      properties[key] = item.is_string() ? Json::object({{"type", "string"}}) : Json::object();
    }
    tools.push_back({call.name, Json::object({{"type", "object"}, {"properties", properties}})});
  }
  return tools;
}

std::vector<std::string> markup_pieces(const std::string& format) {
  std::vector<std::string> pieces = {"<think>", "</think>", "\n", " ", "text", "{", "}", "\"", "\\"};
  const std::vector<RandomCall> calls(1, {"f", Json::object({{"a", Json::array({1, "x}"})}})});
  const std::string whole = write_calls(calls, format);
  pieces.insert(pieces.end(), {whole, whole, write_call(calls[0], format), whole.substr(0, whole.size() / 2),
                               whole.substr(whole.size() / 2)});
  const auto add = [&](std::vector<std::string> more) { pieces.insert(pieces.end(), more.begin(), more.end()); };
  if (format == "hermes" || format == "qwen") add({"<tool_call>", "</tool_call>", R"({"name": "f", )"});
  if (format == "qwen3_coder") add({"<tool_call>", "<function=g>", "<parameter=k>", "</parameter>", "</function>"});
  if (format == "llama3_json") add({"<|python_tag|>", "<|eot_id|>", ";", R"({"name": "f", "parameters": )"});
  if (format.starts_with("mistral")) add({"[TOOL_CALLS]", "[", "]", "f[ARGS]", "</s>", ","});
  if (format.starts_with("deepseek")) add({"<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"});
  if (format == "pythonic") add({"[", "]", "f(a=", "(", ")", "'", "=", ", ", "<|python_start|>", "1.5", "\\u00"});
  if (format == "harmony") add({"<|start|>", "<|channel|>", "final", "<|message|>", "<|end|>", " to=functions.f"});
  if (format == "json") add({"[", "]", ",", R"({"name": "f", "parameters": )"});
  return pieces;
}

}  // namespace easydel::serve
