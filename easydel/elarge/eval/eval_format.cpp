#include "easydel/elarge/eval/eval_format.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/elarge/eval/python_literal.h"

namespace easydel {
namespace {

// lm-evaluation-harness has Jinja's own rules for white space, and StrictUndefined.
constexpr jinja::Settings kSettings{
    .trim_blocks = false, .lstrip_blocks = false, .keep_trailing_newline = true, .strict_undefined = true};

bool is_word(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
  });
}

bool is_digits(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string sentence(std::string text) { return text.ends_with('.') ? text : text + "."; }

// An index where the template printed one.
Json index_or_text(const std::string& text, bool has_choices, const std::string& where, const data::Row& row) {
  if (!has_choices || !is_digits(text)) return text;
  const auto index = parse_python_literal(text);
  require<FormatError>(index && index->is_int(), where, " gives \"", text, "\" for ", row.place(),
                       ", which is not the index of a choice.");
  return *index;
}

// True and false count as 1 and 0, as in Python.
Json as_index(const Json& value) { return value.is_bool() ? Json(int64_t{value.as_bool()}) : value; }

}  // namespace

RowField::RowField(Json given, std::string where, const std::set<std::string>& fields)
    : given_(std::move(given)), where_(std::move(where)) {
  if (!given_.is_string()) return;
  const std::string& text = given_.as_string();
  is_field_ = fields.contains(text);
  if (is_field_) return;
  try {
    template_.emplace(text, jinja::Limits{}, kSettings);
  } catch (const jinja::TemplateError& error) {
    fail<ConfigError>(where_, " is not a valid template: line ", error.line(), ": ", sentence(error.reason()));
  }
}

void RowField::refuse_slips(const std::set<std::string>& fields) const {
  if (!template_ || !is_word(given_.as_string()) || is_digits(given_.as_string())) return;
  const std::string near = nearest_name(given_.as_string(), fields);
  require<ConfigError>(near.empty(), where_, ": \"", given_.as_string(),
                       "\" is not a field of the data. Did you mean \"", near,
                       "\"? To use it as literal text, write {{ '", given_.as_string(), "' }}.");
}

Json RowField::value(const data::Row& row, bool* rendered) const {
  if (rendered) *rendered = template_.has_value();
  if (is_field_) {
    const Json* value = row.values.find(given_.as_string());
    require<FormatError>(value && !value->is_null(), where_, ": ", row.place(), " has no field \"", given_.as_string(),
                         "\"; it has ", data::list_fields(row.values), ".");
    return as_index(*value);
  }
  if (!template_) return given_;
  try {
    return template_->render(row.values).text;
  } catch (const jinja::TemplateError& error) {
    fail<FormatError>(where_, " fails on ", row.place(), ": line ", error.line(),
                      " of the template: ", sentence(error.reason()));
  }
}

RowFormat::RowFormat(const EvalTask& task, const TaskFormat& format, const std::set<std::string>& fields, bool choices)
    : format_(format),
      has_choices_(choices),
      text_(format.doc_to_text, task.where("doc_to_text"), fields),
      target_(format.doc_to_target, task.where("doc_to_target"), fields),
      choice_(format.doc_to_choice, task.where("doc_to_choice"), fields),
      prefix_(format.gen_prefix, task.where("gen_prefix"), fields) {
  for (const RowField* field : {&text_, &target_, &choice_}) field->refuse_slips(fields);
}

Json RowFormat::text(const data::Row& row) const {
  bool rendered = false;
  Json value = text_.value(row, &rendered);
  if (rendered) value = index_or_text(value.as_string(), has_choices_, text_.where(), row);
  require<FormatError>(value.is_string() || value.is_int(), text_.where(), " must give a string; got ", value.dump(),
                       " for ", row.place(), ".");
  return value;
}

Json RowFormat::target(const data::Row& row) const {
  bool rendered = false;
  Json value = target_.value(row, &rendered);
  if (rendered) {
    const std::string text = value.as_string();
    value = index_or_text(text, has_choices_, target_.where(), row);
    if (value.is_string() && text.size() >= 2 && text.front() == '[' && text.back() == ']') {
      if (const auto list = parse_python_literal(text)) value = *list;
    }
  }
  const auto fits = [&](const Json& one) {
    return one.is_string() || one.is_int() || (one.is_float() && !has_choices_);
  };
  const bool list =
      value.is_array() && value.size() > 0 && std::all_of(value.as_array().begin(), value.as_array().end(), fits);
  require<FormatError>(fits(value) || list, target_.where(), " must give a string, an index or a list of these; got ",
                       value.dump(), " for ", row.place(), ".");
  return value;
}

std::string RowFormat::prefix(const data::Row& row) const {
  if (!prefix_.is_given()) return "";
  const Json value = prefix_.value(row);
  require<FormatError>(value.is_string(), prefix_.where(), " must give a string; got ", value.dump(), " for ",
                       row.place(), ".");
  return value.as_string();
}

std::vector<std::string> RowFormat::choices(const data::Row& row) const {
  if (!choice_.is_given()) return {};
  bool rendered = false;
  Json value = choice_.value(row, &rendered);
  if (rendered) {
    const auto list = parse_python_literal(value.as_string());
    require<FormatError>(list.has_value(), choice_.where(), " must give a list; got \"", value.as_string(), "\" for ",
                         row.place(), ". A list of the data prints as one: {{ choices }}.");
    value = *list;
  }
  std::vector<std::string> choices;
  const auto add = [&](const Json& choice) {
    require<FormatError>(choice.is_string(), choice_.where(), " must give a list of strings; got ", choice.dump(),
                         " among them for ", row.place(), ".");
    choices.push_back(choice.as_string());
  };
  if (value.is_object() && !rendered) {
    for (const auto& [key, choice] : value.as_object()) add(choice);
  } else {
    require<FormatError>(value.is_array(), choice_.where(), " must give a list; got ", value.dump(), " for ",
                         row.place(), ".");
    for (const Json& choice : value.as_array()) add(choice);
  }
  require<FormatError>(!choices.empty(), choice_.where(), " gives no choice for ", row.place(), ".");
  return choices;
}

std::size_t choice_index(int64_t index, std::size_t choices, const std::string& where, const data::Row& row) {
  require<FormatError>(index >= 0 && index < static_cast<int64_t>(choices), where, " gives ", index, " for ",
                       row.place(), ", which has ", choices, " choices: an index from 0 to ", choices - 1, ".");
  return static_cast<std::size_t>(index);
}

}  // namespace easydel
