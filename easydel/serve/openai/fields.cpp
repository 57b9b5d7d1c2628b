#include "easydel/serve/openai/fields.h"

#include <cmath>

#include "easydel/core/text/utf8.h"
#include "easydel/serve/openai/api_error.h"

namespace easydel::serve {

Fields::Fields(const Json& object, std::string prefix) : object_(&object), prefix_(std::move(prefix)) {
  const std::string name = prefix_.empty() ? "" : prefix_.substr(0, prefix_.size() - 1);
  require_field(object.is_object(), name, name.empty() ? "the request" : name, " must be an object; got ",
                object.type_name(), ".");
}

const Json* Fields::find(std::string_view name) {
  read_.emplace(name);
  const Json* found = object_->find(name);
  return found && !found->is_null() ? found : nullptr;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const Json* found = find(name);
  if (!found) return std::nullopt;
  require_field(found->is_bool(), path(name), path(name), " must be true or false; got ", found->type_name(), ".");
  return found->as_bool();
}

bool Fields::boolean(std::string_view name, bool otherwise) { return boolean(name).value_or(otherwise); }

std::optional<int64_t> Fields::integer(std::string_view name, int64_t least, int64_t most) {
  const Json* found = find(name);
  if (!found) return std::nullopt;
  const bool is_whole = found->is_int() || (found->is_float() && std::abs(found->as_double()) < 9e15 &&
                                            std::trunc(found->as_double()) == found->as_double());
  require_field(is_whole, path(name), path(name), " must be an integer; got ",
                found->is_number() ? found->dump() : found->type_name(), ".");
  const int64_t value = found->as_int();
  require_field(value >= least, path(name), path(name), " must be at least ", least, "; got ", value, ".");
  require_field(value <= most, path(name), path(name), " must be at most ", most, "; got ", value, ".");
  return value;
}

std::optional<double> Fields::number(std::string_view name, double least, double most) {
  const Json* found = find(name);
  if (!found) return std::nullopt;
  require_field(found->is_number(), path(name), path(name), " must be a number; got ", found->type_name(), ".");
  const double value = found->as_double();
  // Written so that NaN is refused too.
  require_field(value >= least && value <= most, path(name), path(name), " must be between ", least, " and ", most,
                "; got ", found->dump(), ".");
  return value;
}

std::optional<std::string> Fields::string(std::string_view name) {
  const Json* found = find(name);
  if (!found) return std::nullopt;
  require_field(found->is_string(), path(name), path(name), " must be a string; got ", found->type_name(), ".");
  return found->as_string();
}

std::vector<std::string> Fields::strings(std::string_view name) {
  const Json* found = find(name);
  if (!found) return {};
  if (found->is_string()) return {found->as_string()};
  require_field(found->is_array(), path(name), path(name), " must be a string or an array of strings; got ",
                found->type_name(), ".");
  std::vector<std::string> values;
  for (const Json& value : found->as_array()) {
    require_field(value.is_string(), path(name), path(name), " must contain only strings; got ", value.type_name(),
                  ".");
    values.push_back(value.as_string());
  }
  return values;
}

std::vector<int32_t> Fields::tokens(std::string_view name) {
  const Json* found = array(name);
  std::vector<int32_t> ids;
  if (!found) return ids;
  for (const Json& value : found->as_array()) {
    const bool fits = value.is_int() && value.as_int() >= 0 && value.as_int() <= std::numeric_limits<int32_t>::max();
    require_field(fits, path(name), path(name), " must contain only token ids; got ", value.dump(), ".");
    ids.push_back(static_cast<int32_t>(value.as_int()));
  }
  return ids;
}

const Json* Fields::object(std::string_view name) {
  const Json* found = find(name);
  require_field(!found || found->is_object(), path(name), path(name), " must be an object; got ",
                found ? found->type_name() : "", ".");
  return found;
}

const Json* Fields::array(std::string_view name) {
  const Json* found = find(name);
  require_field(!found || found->is_array(), path(name), path(name), " must be an array; got ",
                found ? found->type_name() : "", ".");
  return found;
}

void Fields::accept(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) read_.emplace(name);
}

void Fields::refuse_rest(std::span<const RefusedField> known) const {
  for (const auto& [name, value] : object_->as_object()) {
    if (value.is_null() || read_.contains(name)) continue;
    for (const RefusedField& field : known) {
      if (field.name == name) refuse_field(path(name), path(name), " is not supported: ", field.why, ".");
    }
    refuse_field(path(name), "Unrecognized request argument supplied: ", path(name));
  }
}

Json parse_body(std::string_view body) {
  const std::size_t bad = invalid_utf8(body);
  require_field(bad == std::string_view::npos, "", "the body is not valid UTF-8 at byte ", bad, ".");
  Json json;
  try {
    json = Json::parse(body, {.where = "request body", .max_depth = 128});
  } catch (const FormatError& error) {
    refuse_field("", "We could not parse the JSON body of your request: ", error.what());
  }
  require_field(json.is_object(), "", "the body must be a JSON object; got ", json.type_name(), ".");
  return json;
}

}  // namespace easydel::serve
