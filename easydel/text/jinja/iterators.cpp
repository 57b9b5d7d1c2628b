#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/operators.h"
#include "easydel/text/jinja/printing.h"

namespace easydel::jinja {
namespace {

// An iterator that knows how many items it has.
struct Counted : GeneratorData {
  explicit Counted(Runtime& runtime) : runtime(runtime) {}
  bool next(Value& out) override {
    runtime.spend(1);
    return item(index, out) && ++index;
  }
  virtual bool item(int64_t at, Value& out) = 0;
  Runtime& runtime;
  int64_t index = 0;
};

struct ListIterator : Counted {
  ListIterator(Runtime& runtime, const ListData& list) : Counted(runtime), list(list) {}
  bool item(int64_t at, Value& out) override {
    if (at >= static_cast<int64_t>(list.items.size())) return false;
    out = Value(list.items[at]);
    return true;
  }
  const ListData& list;
};

struct StringIterator : Counted {
  StringIterator(Runtime& runtime, Value text) : Counted(runtime), text(std::move(text)) {}
  bool item(int64_t, Value& out) override {
    if (byte >= text.text().size()) return false;
    const std::size_t begin = byte;
    next_character(text.text(), byte);
    out = runtime.string(text.text().substr(begin, byte - begin));
    return true;
  }
  Value text;
  std::size_t byte = 0;
};

struct RangeIterator : Counted {
  RangeIterator(Runtime& runtime, const RangeData& range) : Counted(runtime), range(range) {}
  bool item(int64_t at, Value& out) override {
    if (at >= range.size()) return false;
    out = range_item(range, at);
    return true;
  }
  const RangeData& range;
};

struct DictIterator : Counted {
  DictIterator(Runtime& runtime, const DictData& dict, ViewData::Kind kind)
      : Counted(runtime), dict(dict), kind(kind) {}
  bool item(int64_t at, Value& out) override {
    if (at >= static_cast<int64_t>(dict.entries.size())) return false;
    const auto& [key, value] = dict.entries[at];
    switch (kind) {
      case ViewData::Keys: out = Value(key); break;
      case ViewData::Contents: out = Value(value); break;
      case ViewData::Items: out = runtime.tuple({key, value}); break;
    }
    return true;
  }
  const DictData& dict;
  ViewData::Kind kind;
};

struct EmptyIterator : GeneratorData {
  bool next(Value&) override { return false; }
};

}  // namespace

Value range_item(const RangeData& range, int64_t index) {
  return static_cast<int64_t>(static_cast<__int128>(range.start) + static_cast<__int128>(range.step) * index);
}

bool is_iterable(const Value& value) {
  switch (value.type()) {
    case Type::Undefined:
    case Type::String:
    case Type::List:
    case Type::Tuple:
    case Type::Dict:
    case Type::View:
    case Type::Range:
    case Type::Generator: return true;
    default: return false;
  }
}

GeneratorData* iterate(Runtime& runtime, const Value& value) {
  refuse_strictly(runtime, value);
  switch (value.type()) {
    case Type::Undefined: return runtime.make<EmptyIterator>();
    case Type::String: return runtime.make<StringIterator>(runtime, value);
    case Type::List:
    case Type::Tuple: return runtime.make<ListIterator>(runtime, value.as<ListData>());
    case Type::Dict: return runtime.make<DictIterator>(runtime, value.as<DictData>(), ViewData::Keys);
    case Type::View: return runtime.make<DictIterator>(runtime, *value.as<ViewData>().dict, value.as<ViewData>().kind);
    case Type::Range: return runtime.make<RangeIterator>(runtime, value.as<RangeData>());
    case Type::Generator: return &value.as<GeneratorData>();
    default: raise("'", type_name(value), "' object is not iterable");
  }
}

Values to_values(Runtime& runtime, const Value& value) {
  if (value.is(Type::List) || value.is(Type::Tuple)) {
    runtime.spend(value.as<ListData>().items.size());
    return value.as<ListData>().items;
  }
  GeneratorData* items = iterate(runtime, value);
  Values out;
  std::size_t taken = 0;
  for (Value item; items->next(item);) {
    runtime.take(sizeof(Value));
    taken += sizeof(Value);
    out.push_back(std::move(item));
  }
  runtime.give(taken);  // whoever keeps the values accounts for it again
  return out;
}

int64_t loop_length(Runtime& runtime, LoopData& loop) {
  if (loop.length >= 0) return loop.length;
  const bool sized = !loop.iterable.is(Type::Generator);
  if (sized) {
    loop.length = require_length(runtime, loop.iterable);
  } else {
    const Value rest = runtime.list(to_values(runtime, Value(Type::Generator, loop.iterator)));
    loop.iterator = iterate(runtime, rest);
    loop.length =
        static_cast<int64_t>(rest.as<ListData>().items.size()) + loop.index0 + 1 + (loop.after.is_missing() ? 0 : 1);
  }
  return loop.length;
}

Value substring(Runtime& runtime, const Value& text, int64_t begin, int64_t end) {
  const std::string& all = text.text();
  if (begin >= end) return runtime.string("", text.safe());
  if (text.string().length == all.size()) return runtime.string(all.substr(begin, end - begin), text.safe());
  runtime.walk(all.size());
  const std::size_t first = byte_of_character(all, begin);
  const std::size_t size = byte_of_character(std::string_view(all).substr(first), end - begin);
  return runtime.string(all.substr(first, size), text.safe());
}

}  // namespace easydel::jinja
