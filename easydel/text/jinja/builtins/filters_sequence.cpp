#include <algorithm>

#include "easydel/text/jinja/builtins/builtins.h"
#include "easydel/text/jinja/builtins/string_tools.h"
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/generators.h"
#include "easydel/text/jinja/printing.h"

namespace easydel::jinja {
namespace {

bool is_true(Interpreter& in, const Value& value) { return truth(in, value); }

Value length_filter(Interpreter& in, Args& args) {
  const auto [value] = bind<1>("len", args, {"obj"}, 1, 1);
  return require_length(in, value);
}

Value to_list(Interpreter& in, Args& args) {
  const auto [value] = bind<1>("list", args, {"value"}, 1);
  return in.list(to_values(in, value));
}

Value first(Interpreter& in, Args& args) {
  const auto [value] = bind<1>("first", args, {"seq"}, 1);
  Value item;
  if (iterate(in, value)->next(item)) return item;
  return in.undefined("No first item, sequence was empty.");
}

void refuse_reversal(const Value& value) {
  if (value.is(Type::Generator) || !is_iterable(value)) {
    raise("'", type_name(value), "' object is not reversible");
  }
}

Value last(Interpreter& in, Args& args) {
  const auto [value] = bind<1>("last", args, {"seq"}, 1);
  refuse_reversal(value);
  const Values items = to_values(in, value);
  return items.empty() ? in.undefined("No last item, sequence was empty.") : items.back();
}

Value reverse(Interpreter& in, Args& args) {
  const auto [value] = bind<1>("reverse", args, {"value"}, 1);
  if (value.is_string()) return get_slice(in, value, Value(), Value(), Value(int64_t{-1}));
  if (!is_iterable(value)) raise("argument must be iterable");
  Values items = to_values(in, value);
  std::reverse(items.begin(), items.end());
  const Value list = in.list(std::move(items));
  if (value.is(Type::Generator)) return list;
  GeneratorData* each = iterate(in, list);
  return make_generator(in, [each](Value& out) { return each->next(out); });
}

Value join(Interpreter& in, Args& args) {
  const auto [value, separator, attribute] = bind<3>("join", args, {"value", "d", "attribute"}, 1);
  const AttributePath path(in, attribute);
  const std::string between = separator.is_missing() ? "" : to_text(in, separator);
  std::string out;
  bool begun = false;
  GeneratorData* items = iterate(in, value);
  for (Value item; items->next(item); begun = true) {
    if (begun) out += between;
    append_text(in, path(in, item), out);
    in.check_text(out.size());
  }
  return in.string(std::move(out));
}

// Sorts items by their keys, as sorted() does: stable, also when reversed.
Values sort_by(Interpreter& in, const Values& items, const std::function<Value(const Value&)>& key, bool reversed) {
  std::vector<std::pair<Value, Value>> keyed;
  keyed.reserve(items.size());
  for (const Value& item : items) keyed.emplace_back(key(item), item);
  if (reversed) std::reverse(keyed.begin(), keyed.end());
  sort_by_key(in, keyed);
  if (reversed) std::reverse(keyed.begin(), keyed.end());
  Values out;
  for (auto& [sort_key, item] : keyed) out.push_back(std::move(item));
  return out;
}

Value sort(Interpreter& in, Args& args) {
  const auto [value, reversed, cased, attribute] =
      bind<4>("sort", args, {"value", "reverse", "case_sensitive", "attribute"}, 1);
  std::vector<AttributePath> paths;
  if (attribute.is_string()) {
    for (const std::string_view part : split(in, attribute.text(), ",", -1)) {
      paths.emplace_back(in, in.string(std::string(part)));
    }
  } else {
    paths.emplace_back(in, attribute);
  }
  const bool fold = !is_true(in, cased);
  return in.list(sort_by(
      in, to_values(in, value),
      [&](const Value& item) {
        Values keys;
        for (const AttributePath& path : paths) {
          const Value key = path(in, item);
          keys.push_back(fold ? ignore_case(in, key) : key);
        }
        return in.list(std::move(keys));
      },
      is_true(in, reversed)));
}

Value dict_sort(Interpreter& in, Args& args) {
  const auto [value, cased, by, reversed] = bind<4>("dictsort", args, {"value", "case_sensitive", "by", "reverse"}, 1);
  const std::string what = by.is_string() ? by.text() : by.is_missing() ? "key" : "";
  if (what != "key" && what != "value") raise("You can only sort by either \"key\" or \"value\"");
  refuse_undefined(value);
  if (!value.is(Type::Dict)) raise("'", type_name(value), "' object has no attribute 'items'");
  Values pairs;
  for (const auto& [key, held] : value.template as<DictData>().entries) pairs.push_back(in.tuple({key, held}));
  const bool fold = !is_true(in, cased);
  const std::size_t at = what == "key" ? 0 : 1;
  return in.list(sort_by(
      in, pairs,
      [&](const Value& pair) {
        const Value& key = pair.as<ListData>().items[at];
        return fold ? ignore_case(in, key) : key;
      },
      is_true(in, reversed)));
}

Value unique(Interpreter& in, Args& args) {
  const auto [value, cased, attribute] = bind<3>("unique", args, {"value", "case_sensitive", "attribute"}, 1);
  const bool fold = !is_true(in, cased);
  auto* seen = in.make<DictData>();
  // Iteration starts only when the first item is requested.
  return make_generator(in, [&in, value = value, path = AttributePath(in, attribute), fold, seen,
                             items = static_cast<GeneratorData*>(nullptr)](Value& out) mutable {
    if (items == nullptr) items = iterate(in, value);
    for (Value item; items->next(item);) {
      Value key = path(in, item);
      if (fold) key = ignore_case(in, key);
      if (!dict_get(in, *seen, key).is_missing()) continue;
      dict_set(in, *seen, key, Value(true));
      out = std::move(item);
      return true;
    }
    return false;
  });
}

template <bool Max>
Value extreme(Interpreter& in, Args& args) {
  const auto [value, cased, attribute] = bind<3>("min", args, {"value", "case_sensitive", "attribute"}, 1);
  const AttributePath path(in, attribute);
  const bool fold = !is_true(in, cased);
  const auto key_of = [&](const Value& item) {
    const Value key = path(in, item);
    return fold ? ignore_case(in, key) : key;
  };
  GeneratorData* items = iterate(in, value);
  Value best;
  if (!items->next(best)) return in.undefined("No aggregated item, sequence was empty.");
  Value best_key = key_of(best);
  for (Value item; items->next(item);) {
    const Value key = key_of(item);
    if (!less(in, key, best_key, Max ? Operator::Greater : Operator::Less)) continue;
    best = item;
    best_key = key;
  }
  return best;
}

Value sum(Interpreter& in, Args& args) {
  const auto [value, attribute, start] = bind<3>("sum", args, {"iterable", "attribute", "start"}, 1);
  const AttributePath path(in, attribute);
  Value total = start.is_missing() ? Value(int64_t{0}) : start;
  GeneratorData* items = iterate(in, value);
  if (total.is_string()) raise("sum() can't sum strings [use ''.join(seq) instead]");
  for (Value item; items->next(item);) total = binary(in, Operator::Add, total, path(in, item));
  return total;
}

Value group_by(Interpreter& in, Args& args) {
  const auto [value, attribute, otherwise, cased] =
      bind<4>("groupby", args, {"value", "attribute", "default", "case_sensitive"}, 2);
  const AttributePath path(in, attribute, otherwise);
  const bool fold = !is_true(in, cased);
  const auto key_of = [&](const Value& item) {
    const Value key = path(in, item);
    return fold ? ignore_case(in, key) : key;
  };
  Values groups;
  Value current;
  Values members;
  const auto close = [&] {
    if (members.empty()) return;
    const Value key = fold ? path(in, members[0]) : current;
    const Value group = in.tuple({key, in.list(std::move(members))});
    group.as<ListData>().group = true;
    groups.push_back(group);
    members.clear();
  };
  for (const Value& item : sort_by(in, to_values(in, value), key_of, false)) {
    const Value key = key_of(item);
    if (members.empty() || !equal(in, key, current)) {
      close();
      current = key;
    }
    members.push_back(item);
  }
  close();
  return in.list(std::move(groups));
}

Value batch(Interpreter& in, Args& args) {
  const auto [value, count, fill] = bind<3>("batch", args, {"value", "linecount", "fill_with"}, 2);
  return make_generator(in, [&in, value = value, size = count, fill = fill, pending = Value(),
                             items = static_cast<GeneratorData*>(nullptr)](Value& out) mutable {
    if (items == nullptr) items = iterate(in, value);
    Values row;
    if (!pending.is_missing()) row.push_back(std::move(pending));
    pending = Value();
    for (Value item; items->next(item);) {
      refuse_strictly(in, size);
      if (size.is_number() && size.number() == static_cast<double>(row.size())) {
        pending = std::move(item);
        out = in.list(std::move(row));
        return true;
      }
      in.take(sizeof(Value));
      row.push_back(std::move(item));
    }
    if (row.empty()) return false;
    if (!fill.is_missing() && !fill.is_none()) {
      const int64_t wanted = integer_argument("batch", size, 0);
      while (static_cast<int64_t>(row.size()) < wanted) {
        in.take(sizeof(Value));
        row.push_back(fill);
      }
    }
    out = in.list(std::move(row));
    return true;
  });
}

Value slice(Interpreter& in, Args& args) {
  const auto [value, count, fill] = bind<3>("slice", args, {"value", "slices", "fill_with"}, 2);
  struct State {
    Values items;
    int64_t slices = 0, number = 0, offset = 0;
    bool begun = false;
  };
  return make_generator(in, [&in, value = value, count = count, fill = fill, state = State()](Value& out) mutable {
    if (!state.begun) {
      state.items = to_values(in, value);
      state.slices = integer_argument("slice", count, 0);
      if (state.slices == 0) raise("integer division or modulo by zero");
      state.begun = true;
    }
    if (state.number >= state.slices) return false;
    const auto size = static_cast<int64_t>(state.items.size());
    const int64_t each = size / state.slices;
    const int64_t extra = size % state.slices;
    const int64_t begin = state.offset + state.number * each;
    if (state.number < extra) ++state.offset;
    const int64_t end = state.offset + (state.number + 1) * each;
    Values part(state.items.begin() + begin, state.items.begin() + end);
    if (!fill.is_missing() && !fill.is_none() && state.number >= extra) part.push_back(fill);
    ++state.number;
    out = in.list(std::move(part));
    return true;
  });
}

Value items_filter(Interpreter& in, Args& args) {
  const auto [value] = bind<1>("items", args, {"value"}, 1);
  return make_generator(in, [&in, value = value, at = std::size_t{0}](Value& out) mutable {
    if (value.is_undefined()) return false;
    if (!value.is(Type::Dict)) raise("Can only get item pairs from a mapping.");
    const auto& entries = value.template as<DictData>().entries;
    if (at >= entries.size()) return false;
    out = in.tuple({entries[at].first, entries[at].second});
    ++at;
    return true;
  });
}

}  // namespace

std::vector<Builtin> sequence_filters() {
  return {{"batch", batch},          {"count", length_filter}, {"dictsort", dict_sort}, {"first", first},
          {"groupby", group_by},     {"items", items_filter},  {"join", join},          {"last", last},
          {"length", length_filter}, {"list", to_list},        {"max", extreme<true>},  {"min", extreme<false>},
          {"reverse", reverse},      {"slice", slice},         {"sort", sort},          {"sum", sum},
          {"unique", unique}};
}

}  // namespace easydel::jinja
