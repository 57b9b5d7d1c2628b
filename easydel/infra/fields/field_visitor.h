// A config lists its fields once; JSON, overrides, help, docs and equality walk that list.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/infra/fields/field_types.h"

namespace easydel {

// One field of a config, whatever its type.
class Field {
 public:
  virtual ~Field() = default;
  virtual Json get() const = 0;
  // `where` names the class, the file and the key; a ConfigError begins with it.
  virtual void set(const Json& value, const std::string& where) = 0;
  virtual std::string type() const = 0;  // "an integer or null"

  std::string_view key;
  std::string_view help;
  std::initializer_list<std::string_view> aliases;  // other keys that mean the same; read, never written
  bool always = true;                               // written to JSON even when it has its default
};

// v("hidden_size", hidden_size, "Width of the residual stream.", {"n_embd"});
class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;

  template <class T>
  void operator()(std::string_view key, T& value, std::string_view help,
                  std::initializer_list<std::string_view> aliases = {}) {
    Typed<T> field(value);
    field.key = key;
    field.help = help;
    field.aliases = aliases;
    field.always = always_;
    visit(field);
  }

  // The fields listed after this are written to JSON only when they differ from their defaults.
  void only_when_changed() { always_ = false; }

 protected:
  virtual void visit(Field& field) = 0;

 private:
  template <class T>
  class Typed final : public Field {
   public:
    explicit Typed(T& value) : value_(value) {}
    Json get() const override { return FieldType<T>::to_json(value_); }
    void set(const Json& json, const std::string& where) override { FieldType<T>::from_json(json, value_, where); }
    std::string type() const override { return FieldType<T>::name(); }

   private:
    T& value_;
  };

  bool always_ = true;
};

// What a walk over the fields found, in their order.
struct FieldValue {
  std::string key, help, type;
  std::vector<std::string> aliases;
  bool always = true;
  Json value;
};
const FieldValue* find_field(const std::vector<FieldValue>& fields, std::string_view key);  // null: no such key

std::vector<FieldValue> collect_fields(const FieldList& fields);

// Sets each field that `object` has. `where` makes the beginning of an error from a key.
void read_fields(const FieldList& fields, const Json& object,
                 const std::function<std::string(std::string_view)>& where);

// {"hidden_size": 64, "hidden_act": "silu"} from {"hidden_size=64", "hidden_act=silu"}: a value is JSON where it reads
// as such, else a string. UsageError on text without "=".
Json parse_overrides(const std::vector<std::string>& assignments);

}  // namespace easydel
