#include <algorithm>

#include "easydel/text/jinja/builtins/builtins.h"
#include "easydel/text/jinja/builtins/string_tools.h"
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/generators.h"

namespace easydel::jinja {
namespace {

// By name, for a binary search.
std::vector<Builtin> all_filters() {
  std::vector<Builtin> all;
  for (const auto& some : {text_filters(), sequence_filters(), selecting_filters(), number_filters()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  std::sort(all.begin(), all.end(),
            [](const Builtin& a, const Builtin& b) { return std::string_view(a.name) < b.name; });
  return all;
}

}  // namespace

const Builtin* find_filter(std::string_view name) {
  static const std::vector<Builtin> kAll = all_filters();
  const auto found = std::lower_bound(kAll.begin(), kAll.end(), name,
                                      [](const Builtin& filter, std::string_view key) { return filter.name < key; });
  return found != kAll.end() && found->name == name ? &*found : nullptr;
}

AttributePath::AttributePath(Runtime& runtime, const Value& attribute, Value otherwise)
    : otherwise_(std::move(otherwise)) {
  if (attribute.is_missing() || attribute.is_none()) return;
  if (!attribute.is_string()) {
    keys_.push_back(attribute);
    return;
  }
  for (const std::string_view part : split(runtime, attribute.text(), ".", -1)) {
    int64_t number = 0;
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (digits && parse_python_int(part, 10, number)) {
      keys_.push_back(number);
    } else {
      keys_.push_back(runtime.string(std::string(part)));
    }
  }
}

Value AttributePath::operator()(Runtime& runtime, Value item) const {
  for (const Value& key : keys_) {
    item = get_item(runtime, item, key);
    if (item.is_undefined() && !otherwise_.is_missing() && !otherwise_.is_none()) item = otherwise_;
  }
  return item;
}

Value ignore_case(Runtime& runtime, const Value& value) {
  if (!value.is_string()) return value;
  runtime.walk(value.text().size());
  return runtime.string(to_lower(value.text()));
}

}  // namespace easydel::jinja
