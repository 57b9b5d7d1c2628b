#include <algorithm>

#include "easydel/text/jinja/builtins/builtins.h"
#include "easydel/text/jinja/builtins/format.h"
#include "easydel/text/jinja/builtins/number_format.h"
#include "easydel/text/jinja/builtins/string_tools.h"
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/interpreter.h"
#include "easydel/text/jinja/operators.h"
#include "easydel/text/jinja/printing.h"

namespace easydel::jinja {
namespace {

using Strings = std::array<const char*, 1>;

void no_arguments(const char* name, Args& args) {
  if (!args.positional.empty() || !args.named.empty()) raise("str.", name, "() takes no arguments");
}

// A method that maps a text to a text.
template <std::string (*Change)(std::string_view)>
Value changed(Interpreter& in, const Value& self, Args& args) {
  no_arguments("method", args);
  in.walk(self.text().size());
  return in.string(Change(self.text()), self.safe());
}

// A predicate over all characters; false for an empty text.
template <bool (*Holds)(char32_t)>
Value all_are(Interpreter& in, const Value& self, Args& args) {
  no_arguments("method", args);
  in.walk(self.text().size());
  const std::string& text = self.text();
  for (std::size_t byte = 0; byte < text.size();) {
    if (!Holds(next_character(text, byte))) return false;
  }
  return !text.empty();
}

// Whether there is a cased character and none of the opposite case.
template <bool (*Wanted)(char32_t), bool (*Other)(char32_t)>
Value is_cased(Interpreter& in, const Value& self, Args& args) {
  no_arguments("method", args);
  in.walk(self.text().size());
  bool found = false;
  for (std::size_t byte = 0; byte < self.text().size();) {
    const char32_t c = next_character(self.text(), byte);
    if (Other(c) || is_title(c)) return false;
    found = found || Wanted(c);
  }
  return found;
}

Value is_titled(Interpreter& in, const Value& self, Args& args) {
  no_arguments("istitle", args);
  in.walk(self.text().size());
  bool found = false, inside = false;
  for (std::size_t byte = 0; byte < self.text().size();) {
    const char32_t c = next_character(self.text(), byte);
    const bool upper = is_upper(c) || is_title(c);
    const bool lower = is_lower(c);
    if ((upper && inside) || (lower && !inside)) return false;
    inside = upper || lower;
    found = found || inside;
  }
  return found;
}

Value is_ascii(Interpreter&, const Value& self, Args& args) {
  no_arguments("isascii", args);
  return self.string().length == self.text().size();
}

Value is_printable_text(Interpreter& in, const Value& self, Args& args) {
  no_arguments("isprintable", args);
  in.walk(self.text().size());
  for (std::size_t byte = 0; byte < self.text().size();) {
    if (!is_printable(next_character(self.text(), byte))) return false;
  }
  return true;
}

Value is_identifier(Interpreter& in, const Value& self, Args& args) {
  no_arguments("isidentifier", args);
  in.walk(self.text().size());
  for (std::size_t byte = 0; byte < self.text().size();) {
    const bool first = byte == 0;
    const char32_t c = next_character(self.text(), byte);
    if (c != '_' && !is_alpha(c) && (first || !is_alnum(c))) return false;
  }
  return !self.text().empty();
}

template <bool Left, bool Right>
Value stripped(Interpreter& in, const Value& self, Args& args) {
  const auto [chars] = bind<1>("strip", args, {"chars"}, 0, 1);
  in.walk(self.text().size());
  if (chars.is_missing() || chars.is_none()) return in.string(strip(self.text(), Left, Right), self.safe());
  if (!chars.is_string()) raise("strip arg must be None or str");
  in.walk(8 * chars.text().size());  // they are sorted
  return in.string(strip(self.text(), Left, Right, chars.text()), self.safe());
}

template <bool Right>
Value split_text(Interpreter& in, const Value& self, Args& args) {
  const auto [separator, count] = bind<2>("split", args, {"sep", "maxsplit"}, 0);
  const int64_t limit = integer_argument("split", count, -1);
  in.walk(self.text().size());
  std::vector<std::string_view> parts;
  if (separator.is_missing() || separator.is_none()) {
    parts = Right ? split_right(in, self.text(), limit) : split(in, self.text(), limit);
  } else {
    const std::string& mark = string_argument("split", separator);
    if (mark.empty()) raise("empty separator");
    in.touch(mark.size());
    parts = Right ? split_right(in, self.text(), mark, limit) : split(in, self.text(), mark, limit);
  }
  Values out;
  for (const std::string_view part : parts) out.push_back(in.string(std::string(part), self.safe()));
  return in.list(std::move(out));
}

Value split_lines_of(Interpreter& in, const Value& self, Args& args) {
  const auto [keep] = bind<1>("splitlines", args, {"keepends"}, 0);
  in.walk(self.text().size());
  Values out;
  for (const std::string_view line : split_lines(in, self.text(), integer_argument("splitlines", keep, 0) != 0)) {
    out.push_back(in.string(std::string(line), self.safe()));
  }
  return in.list(std::move(out));
}

template <bool Right>
Value partition(Interpreter& in, const Value& self, Args& args) {
  const auto [separator] = bind<1>("partition", args, {"sep"}, 1, 1);
  const std::string& mark = string_argument("partition", separator);
  if (mark.empty()) raise("empty separator");
  const std::string& text = self.text();
  in.walk(text.size() + mark.size());
  const std::size_t at = Right ? find_last_text(text, mark) : find_text(text, mark);
  if (at == std::string::npos) {
    const Value empty = in.string("", self.safe());
    return Right ? in.tuple({empty, empty, self}) : in.tuple({self, empty, empty});
  }
  return in.tuple({in.string(text.substr(0, at), self.safe()), in.string(mark, self.safe()),
                   in.string(text.substr(at + mark.size()), self.safe())});
}

// The part of the text between two optional positions, and where it begins; nullopt when the first is past the end.
std::optional<std::pair<std::string_view, int64_t>> between(Interpreter& in, const Value& self, const Value& start,
                                                            const Value& stop) {
  const auto size = static_cast<int64_t>(self.string().length);
  const auto bound = [&](const Value& value, int64_t otherwise) {
    if (value.is_missing() || value.is_none()) return otherwise;
    if (!value.is_integral()) raise("slice indices must be integers or None or have an __index__ method");
    return value.integer() < 0 ? std::max<int64_t>(value.integer() + size, 0) : value.integer();
  };
  const int64_t begin = bound(start, 0);
  const int64_t end = std::min(bound(stop, size), size);
  if (begin > size || begin > end) return std::nullopt;
  in.walk(self.text().size());
  const std::string_view text = self.text();
  const std::size_t first = begin == 0 ? 0 : byte_of_character(text, begin);
  const std::size_t bytes = end == size ? text.size() - first : byte_of_character(text.substr(first), end - begin);
  return std::pair(text.substr(first, bytes), begin);
}

template <bool Right, bool Raises>
Value find_in_text(Interpreter& in, const Value& self, Args& args) {
  const auto [wanted, start, stop] = bind<3>("find", args, {"sub", "start", "end"}, 1, 3);
  const std::string& mark = string_argument("find", wanted);
  int64_t found = -1;
  if (const auto part = between(in, self, start, stop)) {
    in.touch(mark.size());
    const std::size_t at = Right ? find_last_text(part->first, mark) : find_text(part->first, mark);
    if (at != std::string_view::npos) {
      found = part->second + static_cast<int64_t>(count_characters(part->first.substr(0, at)));
    }
  }
  if (found < 0 && Raises) raise("substring not found");
  return found;
}

Value count_text(Interpreter& in, const Value& self, Args& args) {
  const auto [wanted, start, stop] = bind<3>("count", args, {"sub", "start", "end"}, 1, 3);
  const std::string& mark = string_argument("count", wanted);
  const auto part = between(in, self, start, stop);
  if (!part) return int64_t{0};
  if (mark.empty()) return static_cast<int64_t>(count_characters(part->first)) + 1;
  int64_t count = 0;
  in.touch(mark.size());
  for (std::size_t at = 0; (at = find_text(part->first, mark, at)) != std::string_view::npos; at += mark.size()) {
    in.spend(1);
    ++count;
  }
  return count;
}

template <bool End>
Value starts_or_ends(Interpreter& in, const Value& self, Args& args) {
  const char* name = End ? "endswith" : "startswith";
  const auto [wanted, start, stop] = bind<3>(name, args, {"prefix", "start", "end"}, 1, 3);
  const auto part = between(in, self, start, stop);
  const auto matches = [&](const Value& value) {
    if (!value.is_string()) raise(name, " first arg must be str or a tuple of str, not ", type_name(value));
    in.touch(value.text().size());
    return part && (End ? part->first.ends_with(value.text()) : part->first.starts_with(value.text()));
  };
  if (!wanted.is(Type::Tuple)) return matches(wanted);
  const Values& options = wanted.as<ListData>().items;
  in.spend(options.size());
  return std::any_of(options.begin(), options.end(), matches);
}

template <bool End>
Value removed(Interpreter& in, const Value& self, Args& args) {
  const auto [wanted] = bind<1>("removeprefix", args, {"prefix"}, 1, 1);
  const std::string& mark = string_argument("removeprefix", wanted);
  const std::string& text = self.text();
  in.touch(mark.size());
  if (End ? !text.ends_with(mark) : !text.starts_with(mark)) return self;
  return in.string(End ? text.substr(0, text.size() - mark.size()) : text.substr(mark.size()), self.safe());
}

Value replaced(Interpreter& in, const Value& self, Args& args) {
  const auto [old_text, new_text, count] = bind<3>("replace", args, {"old", "new", "count"}, 2, 3);
  return in.string(replace(in, self.text(), string_argument("replace", old_text), string_argument("replace", new_text),
                           integer_argument("replace", count, -1)),
                   self.safe());
}

Value joined(Interpreter& in, const Value& self, Args& args) {
  const auto [items] = bind<1>("join", args, {"iterable"}, 1, 1);
  if (!is_iterable(items)) raise("can only join an iterable");
  std::string out;
  int64_t index = 0;
  GeneratorData* each = iterate(in, items);
  for (Value item; each->next(item); ++index) {
    if (!item.is_string()) raise("sequence item ", index, ": expected str instance, ", type_name(item), " found");
    if (index > 0) out += self.text();
    out += self.safe() && !item.safe() ? escape_html(item.text()) : item.text();
    in.check_text(out.size());
    in.touch(item.text().size() + self.text().size());
  }
  return in.string(std::move(out), self.safe());
}

template <char Align>
Value justified(Interpreter& in, const Value& self, Args& args) {
  const auto [width, fill] = bind<2>("center", args, {"width", "fillchar"}, 1, 2);
  const std::string with = fill.is_missing() ? " " : string_argument("center", fill);
  in.touch(with.size() + self.text().size());
  if (count_characters(with) != 1) raise("The fill character must be exactly one character long");
  return in.string(justify(in, self.text(), integer_argument("center", width, 0), Align, with), self.safe());
}

Value zero_filled(Interpreter& in, const Value& self, Args& args) {
  const auto [width] = bind<1>("zfill", args, {"width"}, 1, 1);
  const std::string& text = self.text();
  in.touch(text.size());
  const bool sign = text.starts_with('-') || text.starts_with('+');
  const int64_t wide = integer_argument("zfill", width, 0) - (sign ? 1 : 0);
  return in.string(text.substr(0, sign) + justify(in, text.substr(sign), wide, '>', "0"), self.safe());
}

Value expanded_tabs(Interpreter& in, const Value& self, Args& args) {
  const auto [size] = bind<1>("expandtabs", args, {"tabsize"}, 0);
  const int64_t tab = integer_argument("expandtabs", size, 8);
  in.walk(self.text().size());
  std::string out;
  int64_t column = 0;
  for (std::size_t byte = 0; byte < self.text().size();) {
    const char32_t c = next_character(self.text(), byte);
    if (c == '\t') {
      const int64_t missing = tab > 0 ? tab - column % tab : 0;
      in.check_text(out.size() + static_cast<std::size_t>(missing));
      out.append(static_cast<std::size_t>(missing), ' ');
      column += missing;
    } else {
      append_character(out, c);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return in.string(std::move(out), self.safe());
}

std::string format_with(Interpreter& in, const Value& self, const Values& positional,
                        const std::function<Value(const std::string&)>& named) {
  FieldLookup lookup;
  lookup.position = [&](int64_t index) {
    if (index >= static_cast<int64_t>(positional.size())) {
      raise("Replacement index ", index, " out of range for positional args tuple");
    }
    return positional[index];
  };
  lookup.name = named;
  lookup.attribute = [&](const Value& object, const std::string& name) { return get_attribute(in, object, name); };
  lookup.item = [&](const Value& object, const Value& key) { return get_item(in, object, key); };
  return format_fields(in, self.text(), lookup);
}

Value formatted(Interpreter& in, const Value& self, Args& args) {
  return in.string(format_with(in, self, args.positional,
                               [&](const std::string& name) {
                                 in.spend(args.named.size());
                                 for (const auto& [key, value] : args.named) {
                                   if (same_text(in, key, name)) return value;
                                 }
                                 raise("KeyError: ", quoted(name));
                               }),
                   self.safe());
}

Value formatted_map(Interpreter& in, const Value& self, Args& args) {
  const auto [mapping] = bind<1>("format_map", args, {"mapping"}, 1, 1);
  if (!mapping.is(Type::Dict)) raise("format_map() takes a mapping");
  return in.string(format_with(in, self, {},
                               [&](const std::string& name) {
                                 Value found = dict_get(in, mapping.template as<DictData>(), std::string_view(name));
                                 if (found.is_missing()) raise("KeyError: ", quoted(name));
                                 return found;
                               }),
                   self.safe());
}

Value no_bytes(Interpreter&, const Value&, Args&) { raise("bytes and translation tables are not supported"); }

constexpr NamedMethod kMethods[] = {
    {"capitalize", changed<capitalized>},
    {"casefold", changed<case_folded>},
    {"center", justified<'c'>},
    {"count", count_text},
    {"encode", no_bytes},
    {"endswith", starts_or_ends<true>},
    {"expandtabs", expanded_tabs},
    {"find", find_in_text<false, false>},
    {"format", formatted},
    {"format_map", formatted_map},
    {"index", find_in_text<false, true>},
    {"isalnum", all_are<is_alnum>},
    {"isalpha", all_are<is_alpha>},
    {"isascii", is_ascii},
    {"isdecimal", all_are<is_decimal>},
    {"isdigit", all_are<is_digit>},
    {"isidentifier", is_identifier},
    {"islower", is_cased<is_lower, is_upper>},
    {"isnumeric", all_are<is_numeric>},
    {"isprintable", is_printable_text},
    {"isspace", all_are<is_space>},
    {"istitle", is_titled},
    {"isupper", is_cased<is_upper, is_lower>},
    {"join", joined},
    {"ljust", justified<'<'>},
    {"lower", changed<to_lower>},
    {"lstrip", stripped<true, false>},
    {"maketrans", no_bytes},
    {"partition", partition<false>},
    {"removeprefix", removed<false>},
    {"removesuffix", removed<true>},
    {"replace", replaced},
    {"rfind", find_in_text<true, false>},
    {"rindex", find_in_text<true, true>},
    {"rjust", justified<'>'>},
    {"rpartition", partition<true>},
    {"rsplit", split_text<true>},
    {"rstrip", stripped<false, true>},
    {"split", split_text<false>},
    {"splitlines", split_lines_of},
    {"startswith", starts_or_ends<false>},
    {"strip", stripped<true, true>},
    {"swapcase", changed<swapped_case>},
    {"title", changed<to_title>},
    {"translate", no_bytes},
    {"upper", changed<to_upper>},
    {"zfill", zero_filled},
};

}  // namespace

const NamedMethod* find_string_method(std::string_view name) {
  const auto* found = std::find_if(std::begin(kMethods), std::end(kMethods),
                                   [&](const NamedMethod& method) { return name == method.name; });
  return found == std::end(kMethods) ? nullptr : found;
}

}  // namespace easydel::jinja
