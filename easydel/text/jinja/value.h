// The values of a template: Python's values, as far as a sandboxed template can reach them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace easydel::jinja {

class Runtime;

enum class Type : uint8_t {
  Missing,  // no value: an argument that was not passed, a variable that was not set
  Undefined,
  None,
  Bool,
  Int,
  Float,
  String,
  List,
  Tuple,
  Dict,
  View,  // of a dict: keys, values or items
  Range,
  Slice,
  Generator,
  Namespace,
  Macro,
  Function,
  Loop,
  Cycler,
  Joiner,
};

// Text with its length in characters, reference counted by the values. The template owns its constants, which many
// renderings share.
struct StringData {
  std::string text;
  std::size_t length = 0;
  int64_t holders = 0;
  Runtime* runtime = nullptr;  // null: a constant
  bool safe = false;           // Python's Markup
};

// All other compound objects live as long as the rendering, so cycles and deep nesting are freed like the rest.
struct Object {
  virtual ~Object() = default;
};

struct ListData;
struct DictData;

class Value {
 public:
  Value() = default;
  Value(bool value) : type_(Type::Bool) { data_.boolean = value; }
  Value(int64_t value) : type_(Type::Int) { data_.integer = value; }
  Value(double value) : type_(Type::Float) { data_.number = value; }
  explicit Value(StringData* text) : type_(Type::String) {
    data_.text = text;
    hold();
  }
  Value(Type type, Object* object) : type_(type) { data_.object = object; }
  static Value none() { return Value(Type::None, nullptr); }

  Value(const Value& other) : type_(other.type_), data_(other.data_) { hold(); }
  Value(Value&& other) noexcept : type_(other.type_), data_(other.data_) { other.type_ = Type::Missing; }
  Value& operator=(const Value& other) {
    Value copy(other);
    swap(copy);
    return *this;
  }
  Value& operator=(Value&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Value() { release(); }

  Type type() const { return type_; }
  bool is(Type type) const { return type_ == type; }
  bool is_missing() const { return type_ == Type::Missing; }
  bool is_undefined() const { return type_ == Type::Undefined; }
  bool is_none() const { return type_ == Type::None; }
  bool is_string() const { return type_ == Type::String; }
  bool is_integral() const { return type_ == Type::Int || type_ == Type::Bool; }
  bool is_number() const { return is_integral() || type_ == Type::Float; }

  bool boolean() const { return data_.boolean; }
  int64_t integer() const { return type_ == Type::Bool ? int64_t{data_.boolean} : data_.integer; }
  double number() const { return type_ == Type::Float ? data_.number : static_cast<double>(integer()); }
  const std::string& text() const { return data_.text->text; }
  const StringData& string() const { return *data_.text; }
  bool safe() const { return type_ == Type::String && data_.text->safe; }
  Object* object() const { return data_.object; }
  template <class T>
  T& as() const {
    return *static_cast<T*>(data_.object);
  }
  bool same(const Value& other) const;  // the same object; for texts, Python's `is` differs: see is_same

 private:
  void swap(Value& other) noexcept {
    std::swap(type_, other.type_);
    std::swap(data_, other.data_);
  }
  void hold() {
    if (type_ == Type::String && data_.text->runtime != nullptr) ++data_.text->holders;
  }
  void release();

  Type type_ = Type::Missing;
  union {
    bool boolean;
    int64_t integer;
    double number;
    StringData* text;
    Object* object;
  } data_{.integer = 0};
};

using Values = std::vector<Value>;

struct ListData : Object {  // and tuples
  Values items;
  bool group = false;  // yielded by groupby: a tuple with names for its two items
};

// Entries in the order in which their keys were first set.
struct DictData : Object {
  std::vector<std::pair<Value, Value>> entries;
  std::vector<std::vector<uint32_t>> buckets;  // only once there are many entries
};

struct UndefinedData : Object {
  std::string message;
  bool unsafe = false;   // the sandbox rejects the attribute
  bool lenient = false;  // even with strict undefined: the value of an if-expression without an else
};

struct RangeData : Object {
  int64_t start = 0, stop = 0, step = 1;
  int64_t size() const;
};

struct SliceData : Object {
  Value start, stop, step;
};

struct ViewData : Object {
  enum Kind { Keys, Items, Contents } kind = Keys;
  DictData* dict = nullptr;
};

// Yields each value once, as Python's generators and iterators do.
struct GeneratorData : Object {
  const char* name = "generator";
  virtual bool next(Value& out) = 0;
};

struct NamespaceData : Object {
  std::vector<std::pair<std::string, Value>> attributes;
};

struct CyclerData : Object {
  Values items;
  std::size_t position = 0;
};

struct JoinerData : Object {
  Value separator;
  bool used = false;
};

struct LoopData : Object {
  Value iterable;
  GeneratorData* iterator = nullptr;
  int64_t index0 = -1;
  int64_t depth0 = 0;
  int64_t length = -1;  // not known yet
  Value after, current, before, last_changed;
  const void* recurse = nullptr;  // the statement, when it is recursive
  Object* frame = nullptr;        // the enclosing one
};

}  // namespace easydel::jinja
