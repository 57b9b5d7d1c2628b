#include "easydel/serve/grammar/schema_check.h"

#include <algorithm>
#include <array>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"

namespace easydel::serve {
namespace {

using SchemaKeys = std::initializer_list<std::string_view>;

// The first of these that is there decides alone; what else the schema asks for would be lost.
constexpr std::array<std::string_view, 6> kSchemaDeciders{"$ref", "const", "enum", "anyOf", "oneOf", "allOf"};
constexpr std::array<std::string_view, 26> kSchemaRules{"properties",
                                                        "required",
                                                        "additionalProperties",
                                                        "patternProperties",
                                                        "propertyNames",
                                                        "minProperties",
                                                        "maxProperties",
                                                        "unevaluatedProperties",
                                                        "items",
                                                        "prefixItems",
                                                        "unevaluatedItems",
                                                        "minItems",
                                                        "maxItems",
                                                        "pattern",
                                                        "minLength",
                                                        "maxLength",
                                                        "minimum",
                                                        "maximum",
                                                        "exclusiveMinimum",
                                                        "exclusiveMaximum",
                                                        "multipleOf",
                                                        "$ref",
                                                        "const",
                                                        "enum",
                                                        "anyOf",
                                                        "oneOf"};
constexpr std::array<std::string_view, 15> kSchemaUnknown{
    "not",          "if",          "then",        "else",          "dependentRequired",
    "dependencies", "contains",    "minContains", "maxContains",   "dependentSchemas",
    "$dynamicRef",  "uniqueItems", "nullable",    "$recursiveRef", "additionalItems"};

class SchemaCheck {
 public:
  void run(const Json& schema, const std::string& path) const {
    if (!schema.is_object()) {
      require<ConfigError>(schema.is_bool(), "[JSON schema] ", path, " must be a schema: an object or a boolean; got ",
                           schema.type_name(), ".");
      return;
    }
    refuse_unknown(schema, path);
    refuse_lost(schema, path);
    for (const char* key : {"properties", "patternProperties", "$defs", "definitions"}) run_members(schema, key, path);
    for (const char* key : {"prefixItems", "anyOf", "oneOf", "allOf"}) run_elements(schema, key, path);
    for (const char* key :
         {"additionalProperties", "unevaluatedProperties", "propertyNames", "items", "unevaluatedItems"}) {
      if (const Json* part = schema.find(key)) run(*part, concat(path, "/", key));
    }
  }

 private:
  static void refuse_unknown(const Json& schema, const std::string& path) {
    for (const std::string_view key : kSchemaUnknown) {
      const Json* value = schema.find(key);
      const bool off = value != nullptr && value->is_bool() && !value->as_bool() && key != "not";
      require<ConfigError>(value == nullptr || off, "[JSON schema] ", path, " has ", quoted(key),
                           ", which cannot be enforced while tokens are chosen. Remove it, and check the answer.");
    }
    const Json* items = schema.find("items");
    require<ConfigError>(items == nullptr || !items->is_array(), "[JSON schema] ", path,
                         "/items must be one schema; got a list. Use \"prefixItems\" for a list.");
  }

  static void refuse_lost(const Json& schema, const std::string& path) {
    const auto decider = std::find_if(kSchemaDeciders.begin(), kSchemaDeciders.end(),
                                      [&](std::string_view key) { return schema.contains(key); });
    if (decider == kSchemaDeciders.end()) return refuse_untyped(schema, path);
    for (const std::string_view key : kSchemaRules) {
      require<ConfigError>(key == *decider || !schema.contains(key), "[JSON schema] ", path, " has ", quoted(*decider),
                           " and ", quoted(key), ", which cannot be enforced together. Move ", quoted(key),
                           " into the schemas under ", quoted(*decider), ".");
    }
    require<ConfigError>(*decider == "allOf" || !schema.contains("allOf"), "[JSON schema] ", path, " has ",
                         quoted(*decider), " and \"allOf\", which cannot be enforced together.");
    if (const Json* type = schema.find("type")) check_type(schema, *type, *decider, path);
  }

  // Rules for numbers and strings say nothing about values of another type, so without a type anything would do.
  static void refuse_untyped(const Json& schema, const std::string& path) {
    if (schema.contains("type")) return;
    const auto any = [&](SchemaKeys keys) {
      return std::any_of(keys.begin(), keys.end(), [&](std::string_view key) { return schema.contains(key); });
    };
    if (any({"properties", "additionalProperties", "unevaluatedProperties", "items", "prefixItems",
             "unevaluatedItems"})) {
      return;
    }
    for (const std::string_view key : kSchemaRules) {
      require<ConfigError>(!schema.contains(key), "[JSON schema] ", path, " has ", quoted(key),
                           " and no \"type\". Add the type that it is meant for.");
    }
  }

  static bool is_of(const Json& value, std::string_view type) {
    if (type == "integer") return value.is_int();
    if (type == "number") return value.is_number();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_bool();
    if (type == "null") return value.is_null();
    if (type == "array") return value.is_array();
    return type == "object" && value.is_object();
  }

  static bool is_of_any(const Json& value, const Json& type) {
    if (type.is_string()) return is_of(value, type.as_string());
    if (!type.is_array()) return false;
    return std::any_of(type.as_array().begin(), type.as_array().end(),
                       [&](const Json& each) { return each.is_string() && is_of(value, each.as_string()); });
  }

  // A type next to a list of values or of schemas, each of which must then say the same.
  static void check_type(const Json& schema, const Json& type, std::string_view decider, const std::string& path) {
    const Json& what = schema.at(decider);
    bool agrees = false;
    if (decider == "const") {
      agrees = is_of_any(what, type);
    } else if (what.is_array()) {
      agrees = std::all_of(what.as_array().begin(), what.as_array().end(), [&](const Json& each) {
        if (decider == "enum") return is_of_any(each, type);
        const Json* own = each.find("type");
        return own != nullptr && *own == type;
      });
    }
    require<ConfigError>(agrees, "[JSON schema] ", path, " has \"type\" and ", quoted(decider),
                         ", which do not agree in every case. Give each case under ", quoted(decider), " its type.");
  }

  void run_members(const Json& schema, const char* key, const std::string& path) const {
    const Json* members = schema.find(key);
    if (members == nullptr) return;
    require<ConfigError>(members->is_object(), "[JSON schema] ", path, "/", key, " must be an object; got ",
                         members->type_name(), ".");
    for (const auto& [name, part] : members->as_object()) run(part, concat(path, "/", key, "/", printable(name, 64)));
  }

  void run_elements(const Json& schema, const char* key, const std::string& path) const {
    const Json* elements = schema.find(key);
    if (elements == nullptr) return;
    require<ConfigError>(elements->is_array() && elements->size() > 0, "[JSON schema] ", path, "/", key,
                         " must be a list of schemas that is not empty; got ", elements->type_name(), ".");
    for (std::size_t i = 0; i < elements->size(); ++i) run(elements->at(i), concat(path, "/", key, "/", i));
  }
};

}  // namespace

void check_schema(const Json& schema) { SchemaCheck().run(schema, "#"); }

void check_structural_tag(const Json& tag) {
  if (tag.is_array()) {
    for (const Json& part : tag.as_array()) check_structural_tag(part);
  } else if (tag.is_object()) {
    for (const auto& [key, part] : tag.as_object()) {
      if (key == "json_schema" || key == "schema") {
        check_schema(part);
      } else {
        check_structural_tag(part);
      }
    }
  }
}

}  // namespace easydel::serve
