#include "easydel/text/jinja/runtime.h"

#include "easydel/text/jinja/builtins/unicode.h"

namespace easydel::jinja {

void Value::release() {
  if (type_ != Type::String || data_.text->runtime == nullptr || --data_.text->holders > 0) return;
  data_.text->runtime->give(data_.text->text.size() + sizeof(StringData));
  delete data_.text;
}

bool Value::same(const Value& other) const {
  if (type_ != other.type_) return false;
  switch (type_) {
    case Type::Missing:
    case Type::None: return true;
    case Type::Bool: return data_.boolean == other.data_.boolean;
    case Type::Int: return data_.integer == other.data_.integer;
    case Type::Float: return data_.number == other.data_.number;
    case Type::String: return data_.text == other.data_.text;
    default: return data_.object == other.data_.object;
  }
}

int64_t RangeData::size() const {
  const auto span = step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  if (span <= 0) return 0;
  const __int128 width = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  return static_cast<int64_t>(std::min<__int128>((span + width - 1) / width, INT64_MAX));
}

Runtime::~Runtime() {
  // Values return their text to this object, so they are destroyed first.
  objects_.clear();
}

void Runtime::spend(std::size_t steps) {
  steps_ += static_cast<int64_t>(steps);
  if (steps_ > limits_.steps) {
    raise("the template needs more than ", limits_.steps, " steps (a limit of this engine)");
  }
}

void Runtime::take(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(limits_.memory) || memory_ + static_cast<int64_t>(bytes) > limits_.memory) {
    raise("the values of the template need more than ", limits_.memory, " bytes (a limit of this engine)");
  }
  memory_ += static_cast<int64_t>(bytes);
}

void Runtime::check_text(std::size_t bytes) const {
  if (bytes > static_cast<std::size_t>(limits_.output)) {
    raise("a text is longer than ", limits_.output, " bytes (a limit of this engine)");
  }
}

Value Runtime::string(std::string text, bool safe) {
  take(text.size() + sizeof(StringData));
  touch(text.size());
  auto* data = new StringData{.text = std::move(text), .runtime = this, .safe = safe};
  data->length = count_characters(data->text);
  return Value(data);
}

Value Runtime::sequence(Type type, Values items) {
  take(items.size() * sizeof(Value));
  auto* data = make<ListData>();
  data->items = std::move(items);
  return Value(type, data);
}

Value Runtime::undefined(std::string message, bool unsafe) {
  take(message.size());
  walk(message.size());  // the message quotes a name
  auto* data = make<UndefinedData>();
  data->message = std::move(message);
  data->unsafe = unsafe;
  return Value(Type::Undefined, data);
}

void Nested::fail() {
  --runtime_.depth_;
  raise("the template nests more than ", runtime_.limits_.depth,
        " evaluations (maximum recursion depth exceeded; a limit of this engine)");
}

}  // namespace easydel::jinja
