#include "easydel/data/sources/text_codec.h"

#include <algorithm>
#include <mutex>

#include "easydel/core/error.h"

namespace easydel::data {
namespace {

// The first token that covers the byte, or none. Tokens are in the order of the text.
std::optional<std::size_t> token_at(const Encoding& encoding, std::size_t byte) {
  const auto found = std::partition_point(encoding.offsets.begin(), encoding.offsets.end(),
                                          [&](const Offset& offset) { return offset.end <= byte; });
  if (found == encoding.offsets.end() || found->begin > byte) return std::nullopt;
  return static_cast<std::size_t>(found - encoding.offsets.begin());
}

std::vector<uint8_t> masks_of(const Encoding& encoding, const std::vector<RenderedChat::Span>& spans) {
  std::vector<uint8_t> masks(encoding.size());
  for (const auto& span : spans) {
    const auto first = token_at(encoding, span.begin);
    if (!first) break;
    const auto last = span.end == 0 ? std::nullopt : token_at(encoding, span.end - 1);
    const std::size_t end = last && *last > 0 ? *last + 1 : masks.size();
    for (std::size_t i = *first; i < end; ++i) masks[i] = 1;
  }
  return masks;
}

}  // namespace

// Parsed at the first conversation: a model with a broken template can still be trained on texts.
struct TextCodec::ParsedTemplates {
  std::string given;
  std::once_flag once[2];
  std::optional<ChatTemplate> parsed[2];  // without tools and with them

  const ChatTemplate& get(const AutoTokenizer& tokenizer, bool with_tools) {
    std::call_once(once[with_tools], [&] {
      if (!given.empty()) {
        parsed[with_tools].emplace(given);
        return;
      }
      (void)*tokenizer;  // throws if there is none
      require<ConfigError>(tokenizer.has_chat_template(),
                           "the tokenizer has no chat template: neither chat_template.jinja nor a chat_template in "
                           "tokenizer_config.json.");
      parsed[with_tools] = tokenizer.config().chat_templates.select({}, with_tools);
    });
    return *parsed[with_tools];
  }
};

TextCodec::TextCodec(AutoTokenizer tokenizer, const CodecOptions& options)
    : tokenizer_(std::move(tokenizer)), templates_(std::make_shared<ParsedTemplates>()), eos_token_(options.eos_token) {
  templates_->given = options.chat_template;
  if (eos_token_.empty()) eos_token_ = tokenizer_.config().special_token("eos_token").value_or("");
  require<ConfigError>(eos_token_.empty() || tokenizer_->token_to_id(eos_token_), "[eos_token] \"", eos_token_,
                       "\" is not in the vocabulary of the tokenizer.");
}

Ids TextCodec::encode(std::string_view text, bool add_special_tokens) const {
  const auto ids = tokenizer_->encode_ids(text, add_special_tokens);
  return {ids.begin(), ids.end()};
}

RenderedChat TextCodec::render(const Json& messages, const Row& row, const Chat& chat) const {
  ChatInput input{.messages = messages, .add_generation_prompt = chat.add_generation_prompt, .generated = chat.masks};
  if (chat.continue_final_message) input.continue_final_message = "content";
  const Json* tools = row.values.find("tools");
  if (chat.tools && tools && !tools->is_null()) {
    input.tools = tools->is_string() ? Json::parse(tools->as_string(), {.where = row.place() + ", tools"}) : *tools;
  }
  input.variables = tokenizer_.config().template_variables();
  const Json* variables = row.values.find("chat_template_kwargs");
  if (variables && variables->is_object()) {
    for (const auto& [key, value] : variables->as_object()) input.variables[key] = value;
  }
  try {
    return templates_->get(tokenizer_, input.tools.has_value()).render(input);
  } catch (const Error& error) {
    fail<FormatError>("[", row.place(), "] the chat template cannot render the conversation: ", error.what());
  }
}

TextCodec::ChatIds TextCodec::encode_chat(const Json& messages, const Row& row, const Chat& chat) const {
  const RenderedChat rendered = render(messages, row, chat);
  const Encoding encoding = tokenizer_->encode(rendered.text, {.add_special_tokens = false, .offsets = chat.masks});
  ChatIds out{.ids = {encoding.ids.begin(), encoding.ids.end()}};
  if (chat.masks) out.assistant_masks = masks_of(encoding, rendered.generated);
  return out;
}

std::string TextCodec::render_chat(const Json& messages, const Row& row, const Chat& chat) const {
  return render(messages, row, chat).text;
}

bool TextCodec::has_chat_template() const { return !templates_->given.empty() || tokenizer_.has_chat_template(); }

const std::string& TextCodec::eos_token() const {
  (void)*tokenizer_;  // throws if there is none
  require<ConfigError>(!eos_token_.empty(),
                       "[eos_token] the tokenizer has none, and texts must end with one. Set "
                       "eos_token.");
  return eos_token_;
}

int64_t TextCodec::eos_token_id() const { return *tokenizer_->token_to_id(eos_token()); }

std::optional<int64_t> TextCodec::bos_token_id() const {
  const auto token = tokenizer_.config().special_token("bos_token");
  const auto id = token ? tokenizer_->token_to_id(*token) : std::nullopt;
  return id ? std::optional<int64_t>(*id) : std::nullopt;
}

std::string TextCodec::with_eos(std::string text) const {
  return text.ends_with(eos_token()) ? text : std::move(text) + eos_token();
}

bool is_conversation(const Json& value) {
  return value.is_array() && value.size() > 0 && value.at(std::size_t{0}).is_object() &&
         value.at(std::size_t{0}).contains("role");
}

Json joined(const Json& a, const Json& b) {
  Json out = a;
  for (const Json& message : b.as_array()) out.push_back(message);
  return out;
}

std::size_t common_prefix(const Ids& a, const Ids& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

const std::string& text_of(const Row& row, std::string_view name) {
  const Json& value = field_of(row, name);
  require<FormatError>(value.is_string(), "[", row.place(), "] \"", name,
                       "\" must be a text or a list of messages; got ", value.type_name(), ".");
  return value.as_string();
}

Row to_chatml(Row row) {
  const Json* given = row.values.find("conversations");
  const bool is_old = given && given->is_array() && given->size() > 0 && given->at(std::size_t{0}).contains("from") &&
                      given->at(std::size_t{0}).contains("value");
  if (!is_old) return row;
  Json out = Json::object();
  for (const auto& [name, value] : row.values.as_object()) {
    if (!value.is_array()) {
      out[name] = value;
      continue;
    }
    Json list = Json::array();
    for (const Json& message : value.as_array()) {
      if (!message.is_object() || (!message.contains("from") && !message.contains("value"))) {
        list.push_back(message);
        continue;
      }
      Json turned = Json::object();
      for (const auto& [key, part] : message.as_object()) {
        if (key != "from" && key != "value") turned[key] = part;
      }
      if (const Json* role = message.find("from")) turned["role"] = *role;
      if (const Json* content = message.find("value")) turned["content"] = *content;
      list.push_back(std::move(turned));
    }
    out[name == "conversations" ? "messages" : name] = std::move(list);
  }
  row.values = std::move(out);
  return row;
}

namespace {

// A text that a row may lack; null is as absent.
std::string optional_text(const Row& row, std::string_view name) {
  const Json* value = row.values.find(name);
  return value && !value->is_null() ? text_of(row, name) : "";
}

Json message(const char* role, std::string content) {
  return Json::object({{"role", role}, {"content", std::move(content)}});
}

Json alpaca_messages(const Row& row, const std::string& system, const std::string& question) {
  Json messages = Json::array();
  if (!system.empty()) messages.push_back(message("system", system));
  if (const Json* history = row.values.find("history"); history && !history->is_null()) {
    for (const Json& turn : history->is_array() ? history->as_array() : Json::Array{Json()}) {
      const bool is_turn = turn.is_array() && turn.size() == 2 && turn.at(std::size_t{0}).is_string() &&
                           turn.at(std::size_t{1}).is_string();
      require<FormatError>(is_turn, "[", row.place(),
                           "] \"history\" must be a list of pairs of texts, an instruction and its answer; got ",
                           history->dump().substr(0, 80), ".");
      messages.push_back(message("user", turn.at(std::size_t{0}).as_string()));
      messages.push_back(message("assistant", turn.at(std::size_t{1}).as_string()));
    }
  }
  messages.push_back(message("user", question));
  return messages;
}

// https://github.com/tatsu-lab/stanford_alpaca
std::string alpaca_text(const std::string& system, const std::string& instruction, const std::string& input) {
  const std::string usual = concat("Below is an instruction that describes a task",
                                   input.empty() ? "" : ", paired with an input that provides further context",
                                   ". Write a response that appropriately completes the request.");
  return concat(system.empty() ? usual : system, "\n\n### Instruction:\n", instruction,
                input.empty() ? "" : "\n\n### Input:\n" + input, "\n\n### Response:\n");
}

}  // namespace

Row from_alpaca(Row row, bool as_messages) {
  for (const char* name : {"prompt", "messages"}) {
    if (row.values.contains(name)) return row;
  }
  if (!row.values.contains("instruction") || !row.values.contains("output")) return row;
  const std::string instruction = text_of(row, "instruction"), input = optional_text(row, "input"),
                    system = optional_text(row, "system"), output = text_of(row, "output");
  Json values = row.values;
  if (as_messages) {
    values["prompt"] = alpaca_messages(row, system, input.empty() ? instruction : instruction + "\n\n" + input);
    values["completion"] = Json::array({message("assistant", output)});
  } else {
    const Json* history = row.values.find("history");
    require<FormatError>(!history || history->is_null() || (history->is_array() && history->size() == 0), "[",
                         row.place(), "] \"history\" needs a tokenizer with a chat template.");
    values["prompt"] = alpaca_text(system, instruction, input);
    values["completion"] = output;
  }
  row.values = std::move(values);
  return row;
}

}  // namespace easydel::data
