// A JSON value together with its path, so that errors name the location.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"

namespace easydel {

class JsonField {
 public:
  // `file` is named in errors and must outlive the field.
  JsonField(const Json& value, std::string_view file, std::string path)
      : value_(&value), file_(file), path_(std::move(path)) {}

  JsonField operator[](std::string_view key) const;           // FormatError when absent
  std::optional<JsonField> find(std::string_view key) const;  // none when absent or null
  JsonField operator[](std::size_t index) const;
  const Json& json() const { return *value_; }
  const std::string& path() const { return path_; }
  std::string where() const { return concat("[", file_, "] ", path_.empty() ? "the document" : path_); }

  // FormatError on a different type, or on a number out of range.
  const std::string& as_string() const;
  bool as_bool() const;
  int64_t as_int(int64_t low, int64_t high) const;
  double as_number() const;
  char32_t as_char() const;  // a string of one code point
  const Json::Array& as_array() const;
  const Json::Object& as_object() const;

  bool bool_or(std::string_view key, bool fallback) const;
  std::string string_or(std::string_view key, std::string_view fallback) const;
  // The position of the string among the names.
  std::size_t one_of(std::initializer_list<std::string_view> names) const;

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail<FormatError>(where(), " ", parts...);
  }

 private:
  const Json* value_;
  std::string_view file_;
  std::string path_;
};

}  // namespace easydel
