#include "easydel/core/json/json.h"

#include <array>
#include <charconv>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/json/float_text.h"

namespace easydel {

void append_float(double value, std::string& out) {
  std::array<char, 40> buffer{};
  const double magnitude = std::abs(value);
  const bool fixed = value == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  out.append(buffer.data(), end);
  if (fixed && std::string_view(buffer.data(), end).find('.') == std::string_view::npos) out += ".0";
}

namespace {

constexpr std::size_t kIndexFrom = 16;  // below this many keys a scan beats hashing

void dump_string(const std::string& text, std::string& out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\\u00";
          out += kHex[static_cast<unsigned char>(c) >> 4];
          out += kHex[c & 15];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void dump_double(double value, std::string& out) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value > 0 ? "Infinity" : "-Infinity";
  } else {
    append_float(value, out);
  }
}

void dump_value(const Json& value, int indent, int depth, std::string& out) {
  const auto line = [&](int level) {
    if (indent < 0) return;
    out += '\n';
    out.append(static_cast<std::size_t>(indent) * level, ' ');
  };
  const auto sequence = [&](char open, char close, const auto& items, const auto& each) {
    out += open;
    bool first = true;
    for (const auto& item : items) {
      if (!first) out += indent < 0 ? ", " : ",";
      first = false;
      line(depth + 1);
      each(item);
    }
    if (!first) line(depth);
    out += close;
  };
  if (value.is_null()) {
    out += "null";
  } else if (value.is_bool()) {
    out += value.as_bool() ? "true" : "false";
  } else if (value.is_int()) {
    out += std::to_string(value.as_int());
  } else if (value.is_float()) {
    dump_double(value.as_double(), out);
  } else if (value.is_string()) {
    dump_string(value.as_string(), out);
  } else if (value.is_array()) {
    sequence('[', ']', value.as_array(), [&](const Json& item) { dump_value(item, indent, depth + 1, out); });
  } else {
    sequence('{', '}', value.as_object(), [&](const JsonObject::Entry& entry) {
      dump_string(entry.first, out);
      out += ": ";
      dump_value(entry.second, indent, depth + 1, out);
    });
  }
}

}  // namespace

const Json* JsonObject::find(std::string_view key) const {
  if (!index_.empty()) {
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &entries_[found->second].second;
  }
  for (const Entry& entry : entries_) {
    if (entry.first == key) return &entry.second;
  }
  return nullptr;
}

Json* JsonObject::find(std::string_view key) { return const_cast<Json*>(std::as_const(*this).find(key)); }

Json& JsonObject::operator[](std::string_view key) {
  if (Json* found = find(key)) return *found;
  entries_.emplace_back(std::string(key), Json());
  if (!index_.empty()) {
    index_.emplace(entries_.back().first, entries_.size() - 1);
  } else if (entries_.size() == kIndexFrom) {
    for (std::size_t i = 0; i < entries_.size(); ++i) index_.emplace(entries_[i].first, i);
  }
  return entries_.back().second;
}

bool JsonObject::erase(std::string_view key) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->first != key) continue;
    entries_.erase(entry);
    index_.clear();
    if (entries_.size() >= kIndexFrom) {
      for (std::size_t i = 0; i < entries_.size(); ++i) index_.emplace(entries_[i].first, i);
    }
    return true;
  }
  return false;
}

Json Json::object(std::initializer_list<std::pair<std::string_view, Json>> entries) {
  Object object;
  for (const auto& [key, value] : entries) object[key] = value;
  return Json(std::move(object));
}

Json Json::parse_file(const std::string& path) { return parse(read_file(path), {.where = path}); }

std::string Json::dump(int indent) const {
  std::string out;
  dump_value(*this, indent, 0, out);
  return out;
}

std::string_view Json::type_name() const {
  constexpr std::array<std::string_view, 7> kNames{"null",     "a boolean", "an integer", "a number",
                                                   "a string", "an array",  "an object"};
  return kNames[value_.index()];
}

namespace {

template <class T, class Variant>
auto& get(Variant& value, std::string_view expected, std::string_view given) {
  auto* held = std::get_if<T>(&value);
  require<FormatError>(held != nullptr, "[Json] expected ", expected, "; got ", given, ".");
  return *held;
}

}  // namespace

bool Json::as_bool() const { return get<bool>(value_, "a boolean", type_name()); }

int64_t Json::as_int() const {
  if (const double* number = std::get_if<double>(&value_)) {
    require<FormatError>(std::trunc(*number) == *number && std::abs(*number) < 9.2e18,
                         "[Json] expected an integer; got ", dump(), ".");
    return static_cast<int64_t>(*number);
  }
  return get<int64_t>(value_, "an integer", type_name());
}

double Json::as_double() const {
  if (const int64_t* number = std::get_if<int64_t>(&value_)) return static_cast<double>(*number);
  return get<double>(value_, "a number", type_name());
}

const std::string& Json::as_string() const { return get<std::string>(value_, "a string", type_name()); }
const Json::Array& Json::as_array() const { return get<Array>(value_, "an array", type_name()); }
Json::Array& Json::as_array() { return get<Array>(value_, "an array", type_name()); }
const Json::Object& Json::as_object() const { return get<Object>(value_, "an object", type_name()); }
Json::Object& Json::as_object() { return get<Object>(value_, "an object", type_name()); }

const Json* Json::find(std::string_view key) const {
  const Object* object = std::get_if<Object>(&value_);
  return object ? object->find(key) : nullptr;
}

const Json& Json::at(std::string_view key) const {
  const Json* found = as_object().find(key);
  require<FormatError>(found != nullptr, "[Json] the key \"", key, "\" is missing.");
  return *found;
}

const Json& Json::at(std::size_t index) const {
  const Array& array = as_array();
  require<FormatError>(index < array.size(), "[Json] element ", index, " of an array of ", array.size(), ".");
  return array[index];
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  return as_object()[key];
}

void Json::push_back(Json value) {
  if (is_null()) value_ = Array();
  as_array().push_back(std::move(value));
}

std::size_t Json::size() const {
  if (const Array* array = std::get_if<Array>(&value_)) return array->size();
  if (const Object* object = std::get_if<Object>(&value_)) return object->size();
  return 0;
}

bool operator==(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    return a.is_int() && b.is_int() ? a.as_int() == b.as_int() : a.as_double() == b.as_double();
  }
  if (a.is_object() && b.is_object()) {
    if (a.size() != b.size()) return false;
    for (const auto& [key, value] : a.as_object()) {
      const Json* other = b.find(key);
      if (!other || !(value == *other)) return false;
    }
    return true;
  }
  return a.value_.index() == b.value_.index() && a.type_name() == b.type_name() &&
         (a.is_null() || (a.is_bool() && a.as_bool() == b.as_bool()) ||
          (a.is_string() && a.as_string() == b.as_string()) || (a.is_array() && a.as_array() == b.as_array()));
}

}  // namespace easydel
