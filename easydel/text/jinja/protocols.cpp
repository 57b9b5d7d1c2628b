// Equality, hashing, length, membership: the protocols of every value.
#include <algorithm>
#include <cmath>

#include "easydel/text/jinja/builtins/string_tools.h"
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/operators.h"
#include "easydel/text/jinja/printing.h"

namespace easydel::jinja {
namespace {

constexpr std::size_t kIndexFrom = 12;  // below this many keys a scan beats hashing

bool equal_items(Runtime& runtime, const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].same(b[i]) && !equal(runtime, a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(Runtime& runtime, const DictData& a, const DictData& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value other = dict_get(runtime, b, key);
    if (other.is_missing() || !(other.same(value) || equal(runtime, value, other))) return false;
  }
  return true;
}

bool equal_ranges(const RangeData& a, const RangeData& b) {
  if (a.size() != b.size()) return false;
  if (a.size() == 0) return true;
  return a.start == b.start && (a.size() == 1 || a.step == b.step);
}

bool equal_views(Runtime& runtime, const ViewData& a, const ViewData& b) {
  if (a.kind == ViewData::Contents || b.kind == ViewData::Contents || a.kind != b.kind) return &a == &b;
  if (a.kind == ViewData::Items) return equal_dicts(runtime, *a.dict, *b.dict);
  if (a.dict->entries.size() != b.dict->entries.size()) return false;
  return std::all_of(a.dict->entries.begin(), a.dict->entries.end(),
                     [&](const auto& entry) { return !dict_get(runtime, *b.dict, entry.first).is_missing(); });
}

std::size_t hash_number(double number) {
  if (std::isfinite(number) && number == std::trunc(number) && std::abs(number) < 9.2e18) {
    return std::hash<int64_t>{}(static_cast<int64_t>(number));
  }
  return std::hash<double>{}(number);
}

int find_key(Runtime& runtime, const DictData& dict, const Value& key, std::size_t hash) {
  if (dict.buckets.empty()) {
    for (std::size_t i = 0; i < dict.entries.size(); ++i) {
      if (dict.entries[i].first.same(key) || equal(runtime, dict.entries[i].first, key)) return static_cast<int>(i);
    }
    return -1;
  }
  for (const uint32_t i : dict.buckets[hash % dict.buckets.size()]) {
    runtime.spend(1);
    if (dict.entries[i].first.same(key) || equal(runtime, dict.entries[i].first, key)) return static_cast<int>(i);
  }
  return -1;
}

void rebuild_index(Runtime& runtime, DictData& dict) {
  const std::size_t size = dict.entries.size() * 4;
  runtime.take(size * sizeof(dict.buckets[0]));
  dict.buckets.assign(size, {});
  for (std::size_t i = 0; i < dict.entries.size(); ++i) {
    dict.buckets[hash_of(runtime, dict.entries[i].first) % size].push_back(static_cast<uint32_t>(i));
  }
}

}  // namespace

bool same_text(Runtime& runtime, std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  runtime.touch(a.size());
  return a == b;
}

bool truth(Runtime& runtime, const Value& value) {
  refuse_strictly(runtime, value);
  switch (value.type()) {
    case Type::Missing:
    case Type::Undefined:
    case Type::None: return false;
    case Type::Bool: return value.boolean();
    case Type::Int: return value.integer() != 0;
    case Type::Float: return value.number() != 0;
    default: return length(runtime, value).value_or(1) != 0;
  }
}

bool equal(Runtime& runtime, const Value& a, const Value& b) {
  const Nested nested(runtime);
  refuse_strictly(runtime, a);
  refuse_strictly(runtime, b);
  runtime.spend(1);
  if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
  if (a.is_number() && b.is_number()) {
    if (a.is(Type::Float) && b.is(Type::Float)) return a.number() == b.number();
    return static_cast<long double>(a.is(Type::Float) ? a.number() : 0) +
               static_cast<long double>(a.is(Type::Float) ? 0 : a.integer()) ==
           static_cast<long double>(b.is(Type::Float) ? b.number() : 0) +
               static_cast<long double>(b.is(Type::Float) ? 0 : b.integer());
  }
  if (a.type() != b.type()) return false;
  switch (a.type()) {
    case Type::Undefined:
    case Type::None: return true;
    case Type::String: return same_text(runtime, a.text(), b.text());
    case Type::List:
    case Type::Tuple: return equal_items(runtime, a.as<ListData>().items, b.as<ListData>().items);
    case Type::Dict: return equal_dicts(runtime, a.as<DictData>(), b.as<DictData>());
    case Type::Range: return equal_ranges(a.as<RangeData>(), b.as<RangeData>());
    case Type::View: return equal_views(runtime, a.as<ViewData>(), b.as<ViewData>());
    default: return a.same(b);
  }
}

std::size_t hash_of(Runtime& runtime, const Value& value) {
  const Nested nested(runtime);
  refuse_strictly(runtime, value);
  switch (value.type()) {
    case Type::Bool:
    case Type::Int: return std::hash<int64_t>{}(value.integer());
    case Type::Float: return hash_number(value.number());
    case Type::String: runtime.touch(value.text().size()); return std::hash<std::string>{}(value.text());
    case Type::None: return 1;
    case Type::Undefined: return 2;
    case Type::Range: return static_cast<std::size_t>(value.as<RangeData>().size());
    case Type::Tuple: {
      std::size_t hash = 0x345678;
      for (const Value& item : value.as<ListData>().items) hash = hash * 1000003 ^ hash_of(runtime, item);
      return hash;
    }
    case Type::List:
    case Type::Dict:
    case Type::Slice: raise("unhashable type: '", type_name(value), "'");
    case Type::View:
      if (value.as<ViewData>().kind != ViewData::Contents) raise("unhashable type: '", type_name(value), "'");
      break;
    default: break;
  }
  return std::hash<const void*>{}(value.object());
}

Value dict_get(Runtime& runtime, const DictData& dict, const Value& key) {
  const std::size_t hash = hash_of(runtime, key);
  const int found = find_key(runtime, dict, key, hash);
  return found < 0 ? Value() : dict.entries[found].second;
}

Value dict_get(Runtime& runtime, const DictData& dict, std::string_view key) {
  if (!dict.buckets.empty()) return dict_get(runtime, dict, runtime.string(std::string(key)));
  for (const auto& [name, value] : dict.entries) {
    if (name.is_string() && same_text(runtime, name.text(), key)) return value;
  }
  return {};
}

void dict_set(Runtime& runtime, DictData& dict, const Value& key, const Value& value) {
  const std::size_t hash = hash_of(runtime, key);
  if (const int found = find_key(runtime, dict, key, hash); found >= 0) {
    dict.entries[found].second = value;
    return;
  }
  runtime.take(sizeof(dict.entries[0]));
  dict.entries.emplace_back(key, value);
  if (dict.entries.size() < kIndexFrom) return;
  if (dict.entries.size() > dict.buckets.size()) {
    rebuild_index(runtime, dict);
  } else {
    dict.buckets[hash % dict.buckets.size()].push_back(static_cast<uint32_t>(dict.entries.size() - 1));
  }
}

std::optional<int64_t> length(Runtime& runtime, const Value& value) {
  refuse_strictly(runtime, value);
  switch (value.type()) {
    case Type::Undefined: return 0;
    case Type::String: return static_cast<int64_t>(value.string().length);
    case Type::List:
    case Type::Tuple: return static_cast<int64_t>(value.as<ListData>().items.size());
    case Type::Dict: return static_cast<int64_t>(value.as<DictData>().entries.size());
    case Type::View: return static_cast<int64_t>(value.as<ViewData>().dict->entries.size());
    case Type::Range: return value.as<RangeData>().size();
    case Type::Loop: return loop_length(runtime, value.as<LoopData>());
    default: return std::nullopt;
  }
}

int64_t require_length(Runtime& runtime, const Value& value) {
  const auto found = length(runtime, value);
  if (!found) raise("object of type '", type_name(value), "' has no len()");
  return *found;
}

bool contains(Runtime& runtime, const Value& container, const Value& value) {
  switch (container.type()) {
    case Type::String:
      if (!value.is_string()) {
        raise("'in <string>' requires string as left operand, not ", type_name(value));
      }
      runtime.touch(container.text().size() + value.text().size());
      return find_text(container.text(), value.text()) != std::string::npos;
    case Type::Dict: return !dict_get(runtime, container.as<DictData>(), value).is_missing();
    case Type::Range: {
      const auto& range = container.as<RangeData>();
      const bool whole = value.is_integral() || (value.is(Type::Float) && std::abs(value.number()) < 9e18 &&
                                                 value.number() == std::trunc(value.number()));
      if (!whole) return false;
      const int64_t number = value.is_integral() ? value.integer() : static_cast<int64_t>(value.number());
      const __int128 offset = static_cast<__int128>(number) - range.start;
      return offset % range.step == 0 && offset / range.step >= 0 && offset / range.step < range.size();
    }
    case Type::View:
      if (container.as<ViewData>().kind == ViewData::Keys) {
        return !dict_get(runtime, *container.as<ViewData>().dict, value).is_missing();
      }
      break;
    default: break;
  }
  if (!is_iterable(container)) raise("argument of type '", type_name(container), "' is not iterable");
  GeneratorData* items = iterate(runtime, container);
  for (Value item; items->next(item);) {
    if (item.same(value) || equal(runtime, item, value)) return true;
  }
  return false;
}

void sort_by_key(Runtime& runtime, std::vector<std::pair<Value, Value>>& entries) {
  // Merges runs of one, two, four … entries. With clang, std::stable_sort uses a deprecated function of libstdc++.
  std::vector<std::pair<Value, Value>> merged;
  merged.reserve(entries.size());
  for (std::size_t run = 1; run < entries.size(); run *= 2) {
    merged.clear();
    for (std::size_t begin = 0; begin < entries.size(); begin += 2 * run) {
      const std::size_t middle = std::min(begin + run, entries.size());
      const std::size_t end = std::min(begin + 2 * run, entries.size());
      std::size_t left = begin, right = middle;
      while (left < middle || right < end) {
        runtime.spend(1);
        const bool take_right =
            left == middle || (right < end && less(runtime, entries[right].first, entries[left].first));
        merged.push_back(std::move(entries[take_right ? right++ : left++]));
      }
    }
    entries.swap(merged);
  }
}

}  // namespace easydel::jinja
