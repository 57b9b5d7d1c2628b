#include "easydel/tokenizers/files/tokenizer_config.h"

#include <algorithm>
#include <array>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 7> kSpecialTokenKeys{"bos_token", "eos_token", "unk_token", "sep_token",
                                                            "pad_token", "cls_token", "mask_token"};

bool is_standard(std::string_view name) {
  return std::find(kSpecialTokenKeys.begin(), kSpecialTokenKeys.end(), name) != kSpecialTokenKeys.end();
}

// A token as a string or as an AddedToken object; nothing when it is something else.
std::optional<std::string> token_text(const Json& value) {
  if (value.is_string()) return value.as_string();
  if (const Json* content = value.find("content"); content && content->is_string()) return content->as_string();
  return std::nullopt;
}

Json read_object(const fs::path& path) {
  if (!fs::exists(path)) return Json::object();
  Json out = Json::parse_file(path.string());
  require<FormatError>(out.is_object(), "[TokenizerConfig] ", path.string(), " must contain an object; got ",
                       out.type_name(), ".");
  return out;
}

// A legacy file: it is used only when the config does not list its added tokens itself.
void merge_special_tokens_map(Json& values, const Json& map) {
  if (values.contains("added_tokens_decoder")) return;
  for (const auto& [key, value] : map.as_object()) values[key] = value;
}

void add_extra(std::vector<std::string>& extra, const Json& tokens) {
  for (const Json& token : tokens.as_array()) {
    const auto text = token_text(token);
    require<FormatError>(text.has_value(),
                         "[TokenizerConfig] a special token must be a string or an object with "
                         "\"content\"; got ",
                         token.dump(), ".");
    if (std::find(extra.begin(), extra.end(), *text) == extra.end()) extra.push_back(*text);
  }
}

void read_special_tokens(TokenizerConfig& config, const Json& values) {
  const auto add = [&](const std::string& name, const Json& value) {
    if (value.is_null()) return;
    const auto text = token_text(value);
    require<FormatError>(text.has_value(), "[TokenizerConfig] ", name,
                         " must be a string or an object with \"content\"; got ", value.dump(), ".");
    for (auto& [known, held] : config.special_tokens) {
      if (known != name) continue;
      held = *text;
      return;
    }
    config.special_tokens.emplace_back(name, *text);
  };
  for (const std::string_view name : kSpecialTokenKeys) {
    if (const Json* value = values.find(name)) add(std::string(name), *value);
  }
  for (const auto& [key, value] : values.as_object()) {
    const bool named = key.ends_with("_token") && !is_standard(key);
    if (named && token_text(value)) add(key, value);
  }
  const Json* extra = values.find("extra_special_tokens");
  const bool has_extra = extra && !extra->is_null() && extra->size() > 0;
  if (!has_extra) extra = values.find("additional_special_tokens");
  if (!extra || extra->is_null()) return;
  if (extra->is_object()) {
    for (const auto& [key, value] : extra->as_object()) add(key, value);
  } else {
    require<FormatError>(extra->is_array(),
                         "[TokenizerConfig] extra_special_tokens must be an array or an object; got ",
                         extra->type_name(), ".");
    add_extra(config.extra_special_tokens, *extra);
  }
}

void read_config_templates(ChatTemplates& out, const Json& value) {
  const auto text = [](const Json* source) -> const std::string& {
    require<FormatError>(source && source->is_string(),
                         "[TokenizerConfig] chat_template must be a string, or an array "
                         "of objects with \"name\" and \"template\".");
    return source->as_string();
  };
  if (value.is_null()) return;
  if (value.is_array()) {
    for (const Json& one : value.as_array()) out.set(text(one.find("name")), text(one.find("template")));
  } else if (value.is_object()) {
    for (const auto& [name, source] : value.as_object()) out.set(name, text(&source));
  } else {
    out.set("default", text(&value));
  }
}

// Separate files take precedence over the config; the legacy chat_template.json comes last.
ChatTemplates read_templates(const fs::path& directory, const Json& values) {
  ChatTemplates out;
  if (fs::exists(directory / "chat_template.jinja")) out.set("default", read_file(directory / "chat_template.jinja"));
  const fs::path more = directory / "additional_chat_templates";
  if (fs::is_directory(more)) {
    for (const std::string& name : list_directory(more)) {
      if (name.ends_with(".jinja")) out.set(name.substr(0, name.size() - 6), read_file(more / name));
    }
  }
  if (!out.empty()) return out;
  if (const Json* value = values.find("chat_template")) read_config_templates(out, *value);
  if (!out.empty()) return out;
  const Json legacy = read_object(directory / "chat_template.json");
  if (const Json* value = legacy.find("chat_template")) read_config_templates(out, *value);
  return out;
}

std::optional<bool> read_flag(const Json& values, const char* name) {
  const Json* value = values.find(name);
  if (!value || value->is_null()) return std::nullopt;
  require<FormatError>(value->is_bool(), "[TokenizerConfig] ", name, " must be true or false; got ", value->dump(),
                       ".");
  return value->as_bool();
}

}  // namespace

TokenizerConfig TokenizerConfig::load(const fs::path& directory) {
  require<IoError>(fs::is_directory(directory), "[TokenizerConfig] no such directory: ", directory.string());
  TokenizerConfig config;
  config.values = read_object(directory / "tokenizer_config.json");
  Json values = config.values;
  merge_special_tokens_map(values, read_object(directory / "special_tokens_map.json"));
  read_special_tokens(config, values);
  config.chat_templates = read_templates(directory, values);
  config.add_bos_token = read_flag(values, "add_bos_token");
  config.add_eos_token = read_flag(values, "add_eos_token");
  if (const Json* name = values.find("tokenizer_class"); name && name->is_string()) {
    config.tokenizer_class = name->as_string();
  }
  const Json* length = values.find("model_max_length");
  if (!length) length = values.find("max_len");
  if (length && !length->is_null()) {
    require<FormatError>(length->is_number(), "[TokenizerConfig] model_max_length must be a number; got ",
                         length->dump(), ".");
    // "No limit" is written as 1e30.
    if (length->as_double() < 1e18) config.model_max_length = length->as_int();
  }
  return config;
}

std::optional<std::string> TokenizerConfig::special_token(std::string_view name) const {
  for (const auto& [known, text] : special_tokens) {
    if (known == name) return text;
  }
  return std::nullopt;
}

Json TokenizerConfig::template_variables() const {
  Json out = Json::object();
  for (const auto& [name, text] : special_tokens) out[name] = text;
  return out;
}

}  // namespace easydel
