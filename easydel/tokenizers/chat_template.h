// Renders a conversation in the format that a model was trained on, as transformers' apply_chat_template does.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/text/jinja/template.h"

namespace easydel {

struct ChatInput {
  Json messages;                  // an array of objects, at least one
  std::optional<Json> tools;      // an array of JSON schemas
  std::optional<Json> documents;  // an array of objects, usually with "title" and "text"
  bool add_generation_prompt = false;
  // The field of the last message that the model continues, usually "content"; empty: none.
  std::string continue_final_message;
  Json variables = Json::object();  // additional ones: bos_token, enable_thinking …
  std::optional<std::tm> now;       // for strftime_now; the local time when absent
  bool generated = false;           // whether to return the spans
};

struct RenderedChat {
  std::string text;
  using Span = jinja::Rendering::Span;
  std::vector<Span> generated;  // the assistant's text, where the template marks it with {% generation %}
};

// Parsed once; cheap to copy, and several threads may render at a time.
class ChatTemplate {
 public:
  // Throws jinja::TemplateError with the line at fault.
  explicit ChatTemplate(std::string source, const jinja::Limits& limits = {});

  // ConfigError on an invalid input; jinja::TemplateError when the template fails or rejects it (raise_exception).
  RenderedChat render(const ChatInput& input) const;

  const std::string& source() const { return source_; }

 private:
  std::string source_;
  jinja::Template template_;
};

// The templates of a model by name: one called "default", or several from which the caller picks one.
class ChatTemplates {
 public:
  void set(std::string name, std::string source);
  bool empty() const { return templates_.empty(); }
  std::vector<std::string> names() const;

  // Without a name: "tool_use" when there are tools and such a template, else "default". ConfigError when there is
  // none of that name; jinja::TemplateError when it cannot be parsed.
  ChatTemplate select(std::optional<std::string_view> name = {}, bool with_tools = false) const;
  const std::string* find(std::string_view name) const;  // the source, or null

 private:
  std::vector<std::pair<std::string, std::string>> templates_;
};

}  // namespace easydel
