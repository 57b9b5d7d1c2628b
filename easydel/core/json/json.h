// A JSON value that keeps the order of its keys and distinguishes integers from floats, as config.json needs.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace easydel {

class Json;

struct JsonParseOptions {
  std::string where = "JSON";          // named in errors: usually the file
  bool reject_duplicate_keys = false;  // otherwise the last one wins, as in Python
  int max_depth = 256;
};

// Keys in the order in which they were first set. Look-up is constant time. A new key, as an erased one, ends
// references to the other values.
class JsonObject {
 public:
  using Entry = std::pair<std::string, Json>;

  const Json* find(std::string_view key) const;  // null when absent
  Json* find(std::string_view key);
  Json& operator[](std::string_view key);  // added as null when absent
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  bool erase(std::string_view key);
  std::size_t size() const;
  bool empty() const;
  std::vector<Entry>::const_iterator begin() const;
  std::vector<Entry>::const_iterator end() const;
  std::vector<Entry>::iterator begin();
  std::vector<Entry>::iterator end();

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const { return std::hash<std::string_view>{}(key); }
  };
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> index_;  // only built once there are many
};

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = JsonObject;

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(int64_t{value}) {}
  Json(long value) : value_(int64_t{value}) {}
  Json(long long value) : value_(static_cast<int64_t>(value)) {}
  Json(unsigned value) : value_(int64_t{value}) {}
  Json(unsigned long value) : value_(static_cast<int64_t>(value)) {}
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}
  template <class T>
  Json(const std::vector<T>& values) : value_(Array(values.begin(), values.end())) {}
  Json(const Json&) = default;
  Json(Json&&) noexcept = default;
  ~Json() = default;
  // By value, so that what is assigned may be a part of this value, or of the object that the left side adds a key to:
  // json["new"] = json.at("old").
  Json& operator=(Json other) noexcept {
    value_ = std::move(other.value_);
    return *this;
  }
  static Json array(std::initializer_list<Json> values = {}) { return Json(Array(values)); }
  static Json object(std::initializer_list<std::pair<std::string_view, Json>> entries = {});

  // Throws FormatError with line and column. Accepts NaN and Infinity, which Python writes.
  static Json parse(std::string_view text, const JsonParseOptions& options = {});
  static Json parse_file(const std::string& path);  // IoError when it cannot be read
  // One line when indent is negative. Floats print as Python prints them: 1e-05, 10000.0.
  std::string dump(int indent = -1) const;

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_float() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_int() || is_float(); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  std::string_view type_name() const;  // "null", "a boolean", "an integer", …

  // Each throws FormatError when the value has a different type.
  bool as_bool() const;
  int64_t as_int() const;    // a float with an integral value is accepted
  double as_double() const;  // an integer is accepted
  const std::string& as_string() const;
  const Array& as_array() const;
  Array& as_array();
  const Object& as_object() const;
  Object& as_object();

  const Json* find(std::string_view key) const;  // null when absent or when this is not an object
  const Json& at(std::string_view key) const;    // FormatError when absent
  const Json& at(std::size_t index) const;
  Json& operator[](std::string_view key);  // turns null into an object
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  void push_back(Json value);  // turns null into an array
  std::size_t size() const;    // elements or entries; 0 for anything else

  friend bool operator==(const Json& a, const Json& b);  // the order of keys does not matter

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

// Only here is an entry a complete type, which clang requires.
inline std::size_t JsonObject::size() const { return entries_.size(); }
inline bool JsonObject::empty() const { return entries_.empty(); }
inline std::vector<JsonObject::Entry>::const_iterator JsonObject::begin() const { return entries_.begin(); }
inline std::vector<JsonObject::Entry>::const_iterator JsonObject::end() const { return entries_.end(); }
inline std::vector<JsonObject::Entry>::iterator JsonObject::begin() { return entries_.begin(); }
inline std::vector<JsonObject::Entry>::iterator JsonObject::end() { return entries_.end(); }

}  // namespace easydel
