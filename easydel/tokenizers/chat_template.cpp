#include "easydel/tokenizers/chat_template.h"

#include <algorithm>
#include <array>

#include "easydel/core/error.h"
#include "easydel/text/jinja/builtins/string_tools.h"

namespace easydel {
namespace {

// Names under which a message's reasoning is passed. The first is the one that templates read.
constexpr std::array<std::string_view, 3> kReasoningFields{"reasoning_content", "thinking", "reasoning"};
constexpr std::string_view kTag = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kTagStripped = "CONTINUE_FINAL_MESSAGE_TAG";

std::string stripped(std::string_view text) { return jinja::strip(text, true, true); }

bool is_given(const Json* value) { return value != nullptr && !value->is_null(); }

// Reasoning under its other names becomes "reasoning_content", and "thinking" for the templates that read that.
Json with_reasoning(const Json& message) {
  const Json* reasoning = nullptr;
  for (const std::string_view field : kReasoningFields) {
    if (!reasoning && is_given(message.find(field))) reasoning = message.find(field);
  }
  if (!reasoning) return message;
  Json out = Json::object({{"thinking", *reasoning}});
  for (const auto& [key, value] : message.as_object()) out[key] = value;
  out["reasoning_content"] = *reasoning;
  return out;
}

void check_objects(const Json& values, const char* what) {
  require<ConfigError>(values.is_array(), "[ChatTemplate] ", what, " must be an array of objects; got ",
                       values.type_name(), ".");
  std::size_t index = 0;
  for (const Json& value : values.as_array()) {
    require<ConfigError>(value.is_object(), "[ChatTemplate] ", what, " must be objects; got ", value.type_name(),
                         " at index ", index, ".");
    ++index;
  }
}

// Marks the end of the field to be continued, and returns its text.
std::string tag_final_message(Json& messages, const std::string& field, const std::string& source) {
  Json& last = messages.as_array().back();
  const Json* given = last.find(field);
  require<ConfigError>(is_given(given), "[ChatTemplate] continue_final_message is set, but the final message has no \"",
                       field, "\" to continue.");
  const Json final_message = *given;
  std::vector<std::string> fields{field};
  if (std::find(kReasoningFields.begin(), kReasoningFields.end(), field) != kReasoningFields.end()) {
    fields.clear();
    for (const std::string_view name : kReasoningFields) {
      if (last.find(name) && *last.find(name) == final_message) fields.emplace_back(name);
    }
  }
  const bool read = std::any_of(fields.begin(), fields.end(),
                                [&](const std::string& name) { return source.find(name) != std::string::npos; });
  require<ConfigError>(read, "[ChatTemplate] continue_final_message is set to \"", field,
                       "\", which the template does not read.");
  if (final_message.is_array()) {
    Json::Array& blocks = last[field].as_array();
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      const Json* text = block->find("text");
      if (!text) continue;
      require<ConfigError>(text->is_string(), "[ChatTemplate] the text of a content block must be a string; got ",
                           text->type_name(), ".");
      std::string found = text->as_string();
      (*block)["text"] = found + std::string(kTag);
      return found;
    }
    fail<ConfigError>("[ChatTemplate] continue_final_message is set, but the final message has no text to continue.");
  }
  require<ConfigError>(final_message.is_string(), "[ChatTemplate] only text can be continued; the \"", field,
                       "\" of the final message is ", final_message.type_name(), ".");
  for (const std::string& name : fields) last[name] = last[name].as_string() + std::string(kTag);
  return final_message.as_string();
}

// Cuts the text at the tag.
void cut_at_tag(std::string& text, const std::string& final_message) {
  const std::size_t tag = text.rfind(kTagStripped);
  require<ConfigError>(tag != std::string::npos && text.find(stripped(final_message)) != std::string::npos,
                       "[ChatTemplate] continue_final_message is set, but the final message does not appear in the "
                       "rendered chat; the template changes or drops it. Final message: ",
                       stripped(final_message));
  const bool spacing_kept = text.compare(tag, kTag.size(), kTag) == 0;
  text.resize(tag);
  // The template trims the message, so its trailing white space goes too.
  if (!spacing_kept) text = jinja::strip(text, false, true);
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source, const jinja::Limits& limits)
    : source_(std::move(source)), template_(source_, limits) {}

RenderedChat ChatTemplate::render(const ChatInput& input) const {
  check_objects(input.messages, "messages");
  require<ConfigError>(input.messages.size() > 0,
                       "[ChatTemplate] a conversation needs at least one message; got none.");
  if (input.tools) check_objects(*input.tools, "tools");
  if (input.documents) check_objects(*input.documents, "documents");
  const bool continues = !input.continue_final_message.empty();
  require<ConfigError>(
      !continues || !input.add_generation_prompt,
      "[ChatTemplate] continue_final_message and add_generation_prompt are mutually exclusive: the first "
      "continues the last message, the second begins a new one.");
  require<ConfigError>(!continues || !input.generated,
                       "[ChatTemplate] continue_final_message and the spans of generated text are mutually exclusive.");

  Json variables = Json::object();
  Json messages = Json::array();
  for (const Json& message : input.messages.as_array()) messages.push_back(with_reasoning(message));
  std::string final_message;
  if (continues) final_message = tag_final_message(messages, input.continue_final_message, source_);
  variables["messages"] = std::move(messages);
  variables["tools"] = input.tools ? *input.tools : Json();
  variables["documents"] = input.documents ? *input.documents : Json();
  variables["add_generation_prompt"] = input.add_generation_prompt;
  for (const auto& [name, value] : input.variables.as_object()) {
    require<ConfigError>(!variables.contains(name), "[ChatTemplate] \"", name,
                         "\" is a reserved input and cannot be one of the variables.");
    variables[name] = value;
  }

  jinja::Rendering rendering = template_.render(variables, {.now = input.now});
  if (continues) cut_at_tag(rendering.text, final_message);
  RenderedChat out{.text = std::move(rendering.text)};
  if (input.generated) out.generated = std::move(rendering.generated);
  return out;
}

void ChatTemplates::set(std::string name, std::string source) {
  for (auto& [known, held] : templates_) {
    if (known != name) continue;
    held = std::move(source);
    return;
  }
  templates_.emplace_back(std::move(name), std::move(source));
}

std::vector<std::string> ChatTemplates::names() const {
  std::vector<std::string> out;
  for (const auto& [name, source] : templates_) out.push_back(name);
  std::sort(out.begin(), out.end());
  return out;
}

const std::string* ChatTemplates::find(std::string_view name) const {
  for (const auto& [known, source] : templates_) {
    if (known == name) return &source;
  }
  return nullptr;
}

ChatTemplate ChatTemplates::select(std::optional<std::string_view> name, bool with_tools) const {
  require<ConfigError>(
      !templates_.empty(),
      "[ChatTemplates] the tokenizer has no chat template. Write the prompt yourself, or pass a template.");
  const std::string* found = nullptr;
  if (name) {
    found = find(*name);
  } else {
    if (with_tools) found = find("tool_use");
    if (!found) found = find("default");
  }
  std::string known;
  if (!found) {
    for (const std::string& one : names()) known += (known.empty() ? "" : ", ") + one;
  }
  require<ConfigError>(found, "[ChatTemplates] ",
                       name ? "unknown template \"" : "there are several templates and none is \"",
                       name ? std::string(*name) : "default", "\"; known: ", known, ".");
  return ChatTemplate(*found);
}

}  // namespace easydel
