#include <algorithm>

#include "easydel/text/jinja/builtins/builtins.h"
#include "easydel/text/jinja/builtins/format.h"
#include "easydel/text/jinja/builtins/string_tools.h"
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/interpreter.h"
#include "easydel/text/jinja/operators.h"
#include "easydel/text/jinja/printing.h"

namespace easydel::jinja {
namespace {

// str(value), but Markup stays Markup.
Value soft_text(Interpreter& in, const Value& value) {
  return value.is_string() ? value : in.string(to_text(in, value));
}

template <std::string (*Change)(std::string_view)>
Value changed(Interpreter& in, Args& args) {
  const auto [s] = bind<1>("filter", args, {"s"}, 1);
  const Value text = soft_text(in, s);
  in.walk(text.text().size());
  return in.string(Change(text.text()), text.safe());
}

// Jinja's own: words begin after white space, hyphens and opening brackets.
std::string title_words(std::string_view text) {
  const auto separates = [](char32_t c) {
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
  };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t second = at;
    const bool separator = separates(next_character(text, second));
    std::size_t end = second;
    while (end < text.size()) {
      std::size_t next = end;
      if (separates(next_character(text, next)) != separator) break;
      end = next;
    }
    out += to_upper(text.substr(at, second - at)) + to_lower(text.substr(second, end - second));
    at = end;
  }
  return out;
}

Value to_string(Interpreter& in, Args& args) {
  const auto [value] = bind<1>("string", args, {"s"}, 1);
  return soft_text(in, value);
}

Value trim(Interpreter& in, Args& args) {
  const auto [value, chars] = bind<2>("trim", args, {"value", "chars"}, 1);
  const Value text = soft_text(in, value);
  in.walk(text.text().size());
  if (chars.is_missing() || chars.is_none()) return in.string(strip(text.text(), true, true), text.safe());
  in.walk(8 * string_argument("strip", chars).size());  // they are sorted
  return in.string(strip(text.text(), true, true, chars.text()), text.safe());
}

Value replace_filter(Interpreter& in, Args& args) {
  const auto [s, from, to, count] = bind<4>("replace", args, {"s", "old", "new", "count"}, 3);
  return in.string(replace(in, to_text(in, s), to_text(in, from), to_text(in, to),
                           count.is_none() ? -1 : integer_argument("replace", count, -1)));
}

Value center(Interpreter& in, Args& args) {
  const auto [value, width] = bind<2>("center", args, {"value", "width"}, 1);
  const Value text = soft_text(in, value);
  return in.string(justify(in, text.text(), integer_argument("center", width, 80), 'c', " "), text.safe());
}

Value format_filter(Interpreter& in, Args& args) {
  if (args.positional.size() > 1 && !args.named.empty()) {
    raise("can't handle positional and keyword arguments at the same time");
  }
  const Value text = soft_text(in, args.positional[0]);
  if (args.named.empty()) {
    return format_percent(in, text, in.tuple(Values(args.positional.begin() + 1, args.positional.end())));
  }
  const Value mapping = in.dict();
  for (const auto& [name, value] : args.named) dict_set(in, mapping.as<DictData>(), in.string(name), value);
  return format_percent(in, text, mapping);
}

Value indent(Interpreter& in, Args& args) {
  const auto [s, width, first, blank] = bind<4>("indent", args, {"s", "width", "first", "blank"}, 1);
  std::string by = width.is_string() ? width.text() : "";
  if (!width.is_string()) {
    const int64_t spaces = integer_argument("indent", width, 4);
    in.check_text(static_cast<std::size_t>(std::max<int64_t>(spaces, 0)));
    by.assign(static_cast<std::size_t>(std::max<int64_t>(spaces, 0)), ' ');
  }
  refuse_undefined(s);
  if (!s.is_string()) raise("unsupported operand type(s) for +=: '", type_name(s), "' and 'str'");
  const bool blanks = !blank.is_missing() && truth(in, blank);
  in.walk(s.text().size());
  const std::string whole = s.text() + "\n";
  std::string out;
  bool begun = false;
  for (const std::string_view line : split_lines(in, whole, false)) {
    if (begun) out += '\n';
    if (begun && (blanks || !line.empty())) out += by;
    out += line;
    begun = true;
    in.check_text(out.size());
    in.touch(by.size());
  }
  if (!first.is_missing() && truth(in, first)) out = by + out;
  return in.string(std::move(out), s.safe());
}

Value truncate(Interpreter& in, Args& args) {
  const auto [s, size, kill, end, leeway] = bind<5>("truncate", args, {"s", "length", "killwords", "end", "leeway"}, 1);
  const Value most = size.is_missing() ? Value(int64_t{255}) : size;
  const Value tail = end.is_missing() ? in.string("...") : end;
  const int64_t tail_length = require_length(in, tail);
  const Value slack = leeway.is_missing() || leeway.is_none() ? Value(int64_t{5}) : leeway;
  if (less(in, most, Value(tail_length))) raise("expected length >= ", tail_length, ", got ", to_text(in, most));
  if (less(in, slack, Value(int64_t{0}))) raise("expected leeway >= 0, got ", to_text(in, slack));
  const Value room = binary(in, Operator::Add, most, slack);
  if (less(in, Value(require_length(in, s)), room, Operator::LessEqual)) return s;
  const Value head = get_slice(in, s, Value(), binary(in, Operator::Subtract, most, Value(tail_length)), Value());
  if (!kill.is_missing() && truth(in, kill)) return binary(in, Operator::Add, head, tail);
  if (!head.is_string()) raise("'", type_name(head), "' object has no attribute 'rsplit'");
  const auto parts = split_right(in, head.text(), " ", 1);
  return binary(in, Operator::Add, in.string(std::string(parts[0]), head.safe()), tail);
}

Value word_count(Interpreter& in, Args& args) {
  const auto [s] = bind<1>("wordcount", args, {"s"}, 1);
  const Value text = soft_text(in, s);
  in.walk(text.text().size());
  int64_t count = 0;
  bool inside = false;
  for (std::size_t byte = 0; byte < text.text().size();) {
    const char32_t c = next_character(text.text(), byte);
    const bool word = c == '_' || is_alnum(c);
    count += word && !inside;
    inside = word;
  }
  return count;
}

std::string quote_url(std::string_view text, bool query) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
    if (letter || (byte >= '0' && byte <= '9') || std::string_view("_.-~").find(c) != std::string_view::npos ||
        (!query && c == '/')) {
      out += c;
    } else if (query && c == ' ') {
      out += '+';
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

Value url_encode(Interpreter& in, Args& args) {
  const auto [value] = bind<1>("urlencode", args, {"value"}, 1);
  if (value.is_string() || !is_iterable(value)) return in.string(quote_url(to_text(in, value), false));
  Values items;
  if (value.is(Type::Dict)) {
    for (const auto& [key, held] : value.template as<DictData>().entries) items.push_back(in.tuple({key, held}));
  } else {
    items = to_values(in, value);
  }
  std::string out;
  for (const Value& item : items) {
    const Values pair = to_values(in, item);
    if (pair.size() != 2) raise("expected a key and a value; got ", pair.size(), " values");
    if (!out.empty()) out += '&';
    out += quote_url(to_text(in, pair[0]), true) + "=" + quote_url(to_text(in, pair[1]), true);
    in.check_text(out.size());
  }
  return in.string(std::move(out));
}

Value escape(Interpreter& in, Args& args) {
  const auto [value] = bind<1>("escape", args, {"s"}, 1);
  return value.safe() ? value : in.string(escape_html(to_text(in, value)), true);
}

Value force_escape(Interpreter& in, Args& args) {
  const auto [value] = bind<1>("forceescape", args, {"value"}, 1);
  return in.string(escape_html(to_text(in, value)), true);
}

Value mark_safe(Interpreter& in, Args& args) {
  const auto [value] = bind<1>("safe", args, {"value"}, 1);
  return in.string(to_text(in, value), true);
}

Value to_json_filter(Interpreter& in, Args& args) {
  const auto [value, ascii, indentation, separators, sorted] =
      bind<5>("tojson", args, {"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  JsonStyle style;
  style.ensure_ascii = truth(in, ascii);
  style.sort_keys = truth(in, sorted);
  if (!indentation.is_missing() && !indentation.is_none() && !value.is_string()) {
    style.indented = true;
    style.item_separator = ",";
    if (indentation.is_string()) {
      style.indent = indentation.text();
    } else {
      const int64_t spaces = integer_argument("tojson", indentation, 0);
      in.check_text(static_cast<std::size_t>(std::max<int64_t>(spaces, 0)));
      style.indent.assign(static_cast<std::size_t>(std::max<int64_t>(spaces, 0)), ' ');
    }
  }
  if (!separators.is_missing() && !separators.is_none()) {
    const Values both = to_values(in, separators);
    if (both.size() != 2) raise("separators must be two texts; got ", both.size(), " values");
    style.item_separator = string_argument("tojson", both[0]);
    style.key_separator = string_argument("tojson", both[1]);
  }
  return in.string(to_json(in, value, style));
}

Value not_here(Interpreter&, Args&) {
  raise("the filters pprint, random, striptags, urlize, wordwrap and xmlattr are not supported");
}

}  // namespace

std::vector<Builtin> text_filters() {
  return {{"capitalize", changed<capitalized>},
          {"center", center},
          {"e", escape},
          {"escape", escape},
          {"forceescape", force_escape},
          {"format", format_filter},
          {"indent", indent},
          {"lower", changed<to_lower>},
          {"pprint", not_here},
          {"random", not_here},
          {"replace", replace_filter},
          {"safe", mark_safe},
          {"string", to_string},
          {"striptags", not_here},
          {"title", changed<title_words>},
          {"tojson", to_json_filter},
          {"trim", trim},
          {"truncate", truncate},
          {"upper", changed<to_upper>},
          {"urlencode", url_encode},
          {"urlize", not_here},
          {"wordcount", word_count},
          {"wordwrap", not_here},
          {"xmlattr", not_here}};
}

}  // namespace easydel::jinja
