#include <cmath>

#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/operators.h"
#include "easydel/text/jinja/printing.h"

namespace easydel::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  void write(const Value& value, int level) {
    const Nested nested(runtime_);
    runtime_.spend(1);
    check_size(0);
    switch (value.type()) {
      case Type::None: out_ += "null"; break;
      case Type::Bool: out_ += value.boolean() ? "true" : "false"; break;
      case Type::Int: out_ += std::to_string(value.integer()); break;
      case Type::Float: out_ += number(value.number()); break;
      case Type::String: write_string(value.text()); break;
      case Type::List:
      case Type::Tuple:
        write_items('[', ']', value.as<ListData>().items, level, [&](const Value& item) { write(item, level + 1); });
        break;
      case Type::Dict: write_dict(value.as<DictData>(), level); break;
      default: raise("Object of type ", type_name(value), " is not JSON serializable");
    }
  }

  std::string take() { return std::move(out_); }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return print_float(value);
  }

  void check_size(std::size_t more) {
    if (out_.size() + more > static_cast<std::size_t>(runtime_.limits().output)) {
      raise("the JSON text is longer than ", runtime_.limits().output, " bytes (a limit of this engine)");
    }
  }

  void line(int level) {
    if (!style_.indented) return;
    out_ += '\n';
    check_size(static_cast<std::size_t>(level) * style_.indent.size());
    runtime_.touch(static_cast<std::size_t>(level) * (style_.indent.size() + 1));
    for (int i = 0; i < level; ++i) out_ += style_.indent;
  }

  void write_separator(std::string_view text) {
    check_size(text.size());
    runtime_.touch(text.size());
    out_ += text;
  }

  template <class Items, class Each>
  void write_items(char open, char close, const Items& items, int level, const Each& each) {
    out_ += open;
    bool first = true;
    for (const auto& item : items) {
      if (!first) write_separator(style_.item_separator);
      first = false;
      line(level + 1);
      each(item);
    }
    if (!first) line(level);
    out_ += close;
  }

  void write_dict(const DictData& dict, int level) {
    const auto write_entry = [&](const auto& entry) {
      write_key(entry.first);
      write_separator(style_.key_separator);
      write(entry.second, level + 1);
    };
    if (!style_.sort_keys) {
      write_items('{', '}', dict.entries, level, write_entry);
      return;
    }
    auto entries = dict.entries;
    sort_by_key(runtime_, entries);
    write_items('{', '}', entries, level, write_entry);
  }

  void write_key(const Value& key) {
    switch (key.type()) {
      case Type::String: write_string(key.text()); break;
      case Type::None: write_string("null"); break;
      case Type::Bool: write_string(key.boolean() ? "true" : "false"); break;
      case Type::Int: write_string(std::to_string(key.integer())); break;
      case Type::Float: write_string(number(key.number())); break;
      default: raise("keys must be str, int, float, bool or None, not ", type_name(key));
    }
  }

  void escape(char32_t unit) {
    static constexpr std::string_view kHex = "0123456789abcdef";
    out_ += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out_ += kHex[(unit >> shift) & 15];
  }

  void write_string(std::string_view text) {
    runtime_.walk(text.size());
    out_ += '"';
    for (std::size_t byte = 0; byte < text.size();) {
      const char32_t c = next_character(text, byte);
      switch (c) {
        case '"': out_ += "\\\""; continue;
        case '\\': out_ += "\\\\"; continue;
        case '\b': out_ += "\\b"; continue;
        case '\f': out_ += "\\f"; continue;
        case '\n': out_ += "\\n"; continue;
        case '\r': out_ += "\\r"; continue;
        case '\t': out_ += "\\t"; continue;
        default: break;
      }
      if (c < 0x20 || (style_.ensure_ascii && c > 0x7E && c < 0x10000)) {
        escape(c);
      } else if (style_.ensure_ascii && c >= 0x10000) {
        escape(0xD800 + ((c - 0x10000) >> 10));
        escape(0xDC00 + ((c - 0x10000) & 0x3FF));
      } else {
        append_character(out_, c);
      }
    }
    out_ += '"';
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonWriter writer(runtime, style);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace easydel::jinja
