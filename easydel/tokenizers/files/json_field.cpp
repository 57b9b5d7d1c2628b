#include "easydel/tokenizers/files/json_field.h"

#include "easydel/core/text/utf8.h"

namespace easydel {

JsonField JsonField::operator[](std::string_view key) const {
  const Json* found = as_object().find(key);
  if (!found) refuse("must have \"", key, "\".");
  return {*found, file_, concat(path_, path_.empty() ? "" : ".", key)};
}

std::optional<JsonField> JsonField::find(std::string_view key) const {
  const Json* found = as_object().find(key);
  if (!found || found->is_null()) return std::nullopt;
  return JsonField(*found, file_, concat(path_, path_.empty() ? "" : ".", key));
}

JsonField JsonField::operator[](std::size_t index) const {
  const Json::Array& values = as_array();
  if (index >= values.size()) refuse("must have more than ", index, " elements; got ", values.size(), ".");
  return {values[index], file_, concat(path_, "[", index, "]")};
}

const std::string& JsonField::as_string() const {
  if (!value_->is_string()) refuse("must be a string; got ", value_->type_name(), ".");
  return value_->as_string();
}

bool JsonField::as_bool() const {
  if (!value_->is_bool()) refuse("must be true or false; got ", value_->type_name(), ".");
  return value_->as_bool();
}

int64_t JsonField::as_int(int64_t low, int64_t high) const {
  if (!value_->is_int()) refuse("must be an integer; got ", value_->type_name(), ".");
  const int64_t value = value_->as_int();
  if (value < low || value > high) refuse("must be between ", low, " and ", high, "; got ", value, ".");
  return value;
}

double JsonField::as_number() const {
  if (!value_->is_number()) refuse("must be a number; got ", value_->type_name(), ".");
  return value_->as_double();
}

char32_t JsonField::as_char() const {
  const std::string& text = as_string();
  if (utf8::count(text) != 1) refuse("must be one character; got ", value_->dump(), ".");
  return utf8::first(text);
}

const Json::Array& JsonField::as_array() const {
  if (!value_->is_array()) refuse("must be an array; got ", value_->type_name(), ".");
  return value_->as_array();
}

const Json::Object& JsonField::as_object() const {
  if (!value_->is_object()) refuse("must be an object; got ", value_->type_name(), ".");
  return value_->as_object();
}

bool JsonField::bool_or(std::string_view key, bool fallback) const {
  const auto field = find(key);
  return field ? field->as_bool() : fallback;
}

std::string JsonField::string_or(std::string_view key, std::string_view fallback) const {
  const auto field = find(key);
  return field ? field->as_string() : std::string(fallback);
}

std::size_t JsonField::one_of(std::initializer_list<std::string_view> names) const {
  const std::string& given = as_string();
  std::size_t position = 0;
  std::string known;
  for (const std::string_view name : names) {
    if (name == given) return position;
    known += concat(position++ == 0 ? "" : ", ", name);
  }
  const std::string near = nearest_name(given, names);
  refuse("must be one of ", known, "; got ", value_->dump(), ".",
         near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
}

}  // namespace easydel
