#include "easydel/infra/fields/field_visitor.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/config/json_keys.h"

namespace easydel {
namespace {

class Collector final : public FieldVisitor {
 public:
  std::vector<FieldValue> found;

 protected:
  void visit(Field& field) override {
    found.push_back({std::string(field.key),
                     std::string(field.help),
                     field.type(),
                     {field.aliases.begin(), field.aliases.end()},
                     field.always,
                     field.get()});
  }
};

class Values final : public FieldVisitor {
 public:
  struct Value {
    std::string_view key;
    bool always;
    Json value;
  };
  std::vector<Value> found;

 protected:
  void visit(Field& field) override { found.push_back({field.key, field.always, field.get()}); }
};

class Reader final : public FieldVisitor {
 public:
  Reader(const Json& object, const std::function<std::string(std::string_view)>& where)
      : object_(object), where_(where) {}

 protected:
  void visit(Field& field) override {
    const Json* value = object_.find(field.key);
    for (const std::string_view alias : field.aliases) {
      if (!value) value = object_.find(alias);
    }
    if (!value || (value->is_null() && !field.always)) return;  // null where a key may be left out means its default
    field.set(*value, where_(field.key));
  }

 private:
  const Json& object_;
  const std::function<std::string(std::string_view)>& where_;
};

}  // namespace

std::vector<FieldValue> collect_fields(const FieldList& fields) {
  Collector collector;
  fields(collector);
  return std::move(collector.found);
}

void read_fields(const FieldList& fields, const Json& object,
                 const std::function<std::string(std::string_view)>& where) {
  Reader reader(object, where);
  fields(reader);
}

Json nested_to_json(const FieldList& fields, const FieldList& defaults) {
  Values now, before;
  fields(now);
  defaults(before);
  Json json = Json::object();
  for (std::size_t i = 0; i < now.found.size(); ++i) {
    auto& [key, always, value] = now.found[i];
    if (always || !(value == before.found[i].value)) json[key] = std::move(value);
  }
  return with_sorted_keys(std::move(json));
}

void nested_from_json(const FieldList& fields, const Json& json, const std::string& where) {
  if (!json.is_object()) wrong_type(where, "an object", json);
  read_fields(fields, json, [&](std::string_view key) { return concat(where, ".", key); });
}

Json parse_overrides(const std::vector<std::string>& assignments) {
  Json overrides = Json::object();
  for (const std::string& assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    require<UsageError>(equals != std::string::npos && equals > 0,
                        "[parse_overrides] an override must read key=value; got \"", assignment, "\".");
    const std::string text = assignment.substr(equals + 1);
    Json value;
    try {
      value = Json::parse(text);
    } catch (const FormatError&) {
      value = text;
    }
    overrides[assignment.substr(0, equals)] = std::move(value);
  }
  return overrides;
}

const FieldValue* find_field(const std::vector<FieldValue>& fields, std::string_view key) {
  for (const FieldValue& field : fields) {
    if (field.key == key) return &field;
    if (std::find(field.aliases.begin(), field.aliases.end(), key) != field.aliases.end()) return &field;
  }
  return nullptr;
}

}  // namespace easydel
