#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "easydel/core/json/float_text.h"
#include "easydel/elarge/yaml/yaml.h"

namespace easydel {
namespace {

// PyYAML takes 1e-05 for a text: 1.0e-05.
std::string float_text(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value < 0 ? "-.inf" : ".inf";
  std::string text;
  append_float(value, text);
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) text.insert(exponent, ".0");
  return text;
}

// Text that says the same without quotes, for every reader of YAML.
bool is_plain(std::string_view text) {
  if (text.empty() || text.back() == ' ' || text.size() > 200) return false;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (!letter(text[0]) && text[0] != '/' && text[0] != '.') return false;
  for (const char c : text) {
    if (!letter(c) && !(c >= '0' && c <= '9') && std::string_view("/.-+ ").find(c) == std::string_view::npos)
      return false;
  }
  const bool word = text == "y" || text == "Y" || text == "n" || text == "N";  // booleans of YAML 1.1 to others
  return !word && text != "." && text != ".." && text != "..." && resolve_yaml_scalar(text) == Json(text);
}

// Double quotes hold anything: what is not printable or breaks lines is escaped.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::string_view rest = text.substr(i);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text[i];
    } else if (byte == '\n') {
      out += "\\n";
    } else if (byte == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\x%02x", byte);
      out += escape.data();
    } else if (byte == 0xc2 && rest.size() > 1 && static_cast<unsigned char>(rest[1]) < 0xa0) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\x%02x", static_cast<unsigned char>(rest[1]));
      out += escape.data();
      ++i;
    } else if (rest.starts_with("\xe2\x80\xa8") || rest.starts_with("\xe2\x80\xa9")) {  // separators of lines
      out += rest[2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else if (rest.starts_with("\xef\xbb\xbf") || rest.starts_with("\xef\xbf\xbe") ||
               rest.starts_with("\xef\xbf\xbf")) {
      out += rest[1] == '\xbb' ? "\\ufeff" : rest[2] == '\xbe' ? "\\ufffe" : "\\uffff";
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out + "\"";
}

std::string text_of(std::string_view text) { return is_plain(text) ? std::string(text) : quoted(text); }

bool is_block(const Json& value) { return (value.is_object() || value.is_array()) && value.size() > 0; }

std::string scalar_text(const Json& value) {
  if (value.is_object()) return "{}";
  if (value.is_array()) return "[]";
  if (value.is_string()) return text_of(value.as_string());
  return value.is_float() ? float_text(value.as_double()) : value.dump();
}

// "[1, -1, 1]" for a short list of scalars, else nothing.
std::string one_line(const Json& value) {
  if (!value.is_array() || value.size() == 0 || value.size() > 32) return {};
  std::string text = "[";
  for (const Json& element : value.as_array()) {
    if (is_block(element)) return {};
    text += (text.size() > 1 ? ", " : "") + scalar_text(element);
    if (text.size() > 100) return {};
  }
  return text + "]";
}

// `indent` blanks stand before each line; the first one has been written up to where the value begins.
void write(const Json& value, std::size_t indent, std::string& out) {
  const std::string blanks(indent, ' ');
  bool first = true;
  const auto begin = [&] {
    if (!first) out += blanks;
    first = false;
  };
  if (value.is_object()) {
    for (const auto& [key, inner] : value.as_object()) {
      begin();
      out += text_of(key) + ":";
      const std::string line = is_block(inner) ? one_line(inner) : scalar_text(inner);
      if (!line.empty()) {
        out += " " + line + "\n";
      } else {
        out += "\n" + std::string(indent + 2, ' ');
        write(inner, indent + 2, out);
      }
    }
    return;
  }
  for (const Json& inner : value.as_array()) {
    begin();
    const std::string line = is_block(inner) ? one_line(inner) : scalar_text(inner);
    out += "- ";
    if (!line.empty()) {
      out += line + "\n";
    } else {
      write(inner, indent + 2, out);
    }
  }
}

}  // namespace

std::string to_yaml(const Json& value) {
  if (!is_block(value)) return scalar_text(value) + "\n";
  std::string out;
  write(value, 0, out);
  return out;
}

}  // namespace easydel
