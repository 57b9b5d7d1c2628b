#include "easydel/trainers/arguments/number_fields.h"

#include <charconv>

namespace easydel {
namespace {

Json as_number(const Json& value) {
  std::string_view text = value.as_string();
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const char* end = text.data() + text.size();
  int64_t whole = 0;
  if (const auto r = std::from_chars(text.data(), end, whole); r.ec == std::errc() && r.ptr == end) return whole;
  double real = 0;
  if (const auto r = std::from_chars(text.data(), end, real); r.ec == std::errc() && r.ptr == end) return real;
  return value;
}

}  // namespace

Json with_numbers(Json object, const std::vector<FieldValue>& fields) {
  const auto change = [&](const std::string& key) {
    Json* value = object.as_object().find(key);
    if (value && value->is_string()) *value = as_number(*value);
  };
  for (const FieldValue& field : fields) {
    if (!field.type.starts_with("an integer") && !field.type.starts_with("a number")) continue;
    change(field.key);
    for (const std::string& alias : field.aliases) change(alias);
  }
  return object;
}

}  // namespace easydel
