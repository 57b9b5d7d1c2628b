#include "easydel/text/jinja/printing.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "easydel/core/json/float_text.h"
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/operators.h"

namespace easydel::jinja {
namespace {

void append_hex(std::string& out, const char* format, char32_t c) {
  std::array<char, 16> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned>(c));
  out += buffer.data();
}

template <class Items, class Each>
void append_items(std::string& out, const Items& items, const Each& each) {
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ", ";
    first = false;
    each(item);
  }
}

void append_dict(Runtime& runtime, const DictData& dict, std::string& out) {
  out += '{';
  append_items(out, dict.entries, [&](const auto& entry) {
    append_repr(runtime, entry.first, out);
    out += ": ";
    append_repr(runtime, entry.second, out);
  });
  out += '}';
}

void append_view(Runtime& runtime, const ViewData& view, std::string& out) {
  out += view.kind == ViewData::Keys ? "dict_keys([" : view.kind == ViewData::Items ? "dict_items([" : "dict_values([";
  append_items(out, view.dict->entries, [&](const auto& entry) {
    if (view.kind == ViewData::Items) {
      out += '(';
      append_repr(runtime, entry.first, out);
      out += ", ";
      append_repr(runtime, entry.second, out);
      out += ')';
    } else {
      append_repr(runtime, view.kind == ViewData::Keys ? entry.first : entry.second, out);
    }
  });
  out += "])";
}

void append_object(Runtime& runtime, const Value& value, std::string& out) {
  switch (value.type()) {
    case Type::Namespace: {
      out += "<Namespace {";
      append_items(out, value.as<NamespaceData>().attributes, [&](const auto& attribute) {
        out += quoted(attribute.first) + ": ";
        append_repr(runtime, attribute.second, out);
      });
      out += "}>";
      return;
    }
    case Type::Loop: {
      auto& loop = value.as<LoopData>();
      out += concat("<LoopContext ", loop.index0 + 1, "/", loop_length(runtime, loop), ">");
      return;
    }
    case Type::Macro: {
      out += "<Macro " + macro_name(value) + ">";
      return;
    }
    case Type::Range: {
      const auto& range = value.as<RangeData>();
      out += concat("range(", range.start, ", ", range.stop);
      if (range.step != 1) out += concat(", ", range.step);
      out += ")";
      return;
    }
    case Type::Generator: out += concat("<", value.as<GeneratorData>().name, " object>"); return;
    default: out += concat("<", type_name(value), " object>");
  }
}

}  // namespace

std::string quoted(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t byte = 0; byte < text.size();) {
    const char32_t c = next_character(text, byte);
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      append_character(out, c);
    } else {
      append_hex(out, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    }
  }
  out += quote;
  return out;
}

std::string print_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string out;
  append_float(value, out);
  return out;
}

void append_text(Runtime& runtime, const Value& value, std::string& out) {
  refuse_strictly(runtime, value);
  if (value.is_string()) {
    runtime.touch(value.text().size());
    out += value.text();
  } else if (!value.is_undefined()) {
    append_repr(runtime, value, out);
  }
}

void append_repr(Runtime& runtime, const Value& value, std::string& out) {
  const Nested nested(runtime);
  runtime.spend(1);
  if (static_cast<int64_t>(out.size()) > runtime.limits().output) {
    raise("the text of a value is longer than ", runtime.limits().output, " bytes (a limit of this engine)");
  }
  switch (value.type()) {
    case Type::Missing: break;
    case Type::Undefined: out += "Undefined"; break;
    case Type::None: out += "None"; break;
    case Type::Bool: out += value.boolean() ? "True" : "False"; break;
    case Type::Int: out += std::to_string(value.integer()); break;
    case Type::Float: out += print_float(value.number()); break;
    case Type::String:
      runtime.walk(value.text().size());
      out += value.safe() ? "Markup(" + quoted(value.text()) + ")" : quoted(value.text());
      break;
    case Type::List:
      out += '[';
      append_items(out, value.as<ListData>().items, [&](const Value& item) { append_repr(runtime, item, out); });
      out += ']';
      break;
    case Type::Tuple: {
      const Values& items = value.as<ListData>().items;
      out += '(';
      append_items(out, items, [&](const Value& item) { append_repr(runtime, item, out); });
      out += items.size() == 1 ? ",)" : ")";
      break;
    }
    case Type::Dict: append_dict(runtime, value.as<DictData>(), out); break;
    case Type::View: append_view(runtime, value.as<ViewData>(), out); break;
    default: append_object(runtime, value, out);
  }
}

std::string to_text(Runtime& runtime, const Value& value) {
  std::string out;
  append_text(runtime, value, out);
  return out;
}

std::string to_repr(Runtime& runtime, const Value& value) {
  std::string out;
  append_repr(runtime, value, out);
  return out;
}

const char* type_name(const Value& value) {
  switch (value.type()) {
    case Type::Missing: return "missing";
    case Type::Undefined: return "Undefined";
    case Type::None: return "NoneType";
    case Type::Bool: return "bool";
    case Type::Int: return "int";
    case Type::Float: return "float";
    case Type::String: return value.safe() ? "Markup" : "str";
    case Type::List: return "list";
    case Type::Tuple: return value.as<ListData>().group ? "_GroupTuple" : "tuple";
    case Type::Dict: return "dict";
    case Type::View:
      return value.as<ViewData>().kind == ViewData::Keys    ? "dict_keys"
             : value.as<ViewData>().kind == ViewData::Items ? "dict_items"
                                                            : "dict_values";
    case Type::Range: return "range";
    case Type::Slice: return "slice";
    case Type::Generator: return value.as<GeneratorData>().name;
    case Type::Namespace: return "TemplateNamespace";
    case Type::Macro: return "Macro";
    case Type::Function: return "builtin_function_or_method";
    case Type::Loop: return "LoopContext";
    case Type::Cycler: return "Cycler";
    case Type::Joiner: return "Joiner";
  }
  return "object";
}

std::string object_name(const Value& value) {
  switch (value.type()) {
    case Type::None: return "None";
    case Type::Namespace: return "transformers.utils.chat_template_utils.TemplateNamespace object";
    case Type::Macro:
    case Type::Loop: return concat("jinja2.runtime.", type_name(value), " object");
    case Type::Cycler:
    case Type::Joiner: return concat("jinja2.utils.", type_name(value), " object");
    default: return concat(value.safe() ? "markupsafe." : "", type_name(value), " object");
  }
}

}  // namespace easydel::jinja
