// Reads the fields of a request by name and type, and refuses those that nobody read.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel::serve {

struct RefusedField {
  std::string_view name, why;
};

// Null counts as absent. Every error is a 400 with the field as `param`.
class Fields {
 public:
  // `prefix` goes before names in errors: "stream_options.". The object must outlive this.
  explicit Fields(const Json& object, std::string prefix = "");

  const Json* find(std::string_view name);  // marks it as read; null when absent
  bool boolean(std::string_view name, bool otherwise);
  std::optional<bool> boolean(std::string_view name);
  std::optional<int64_t> integer(std::string_view name, int64_t least = std::numeric_limits<int64_t>::min(),
                                 int64_t most = std::numeric_limits<int64_t>::max());
  std::optional<double> number(std::string_view name, double least, double most);
  std::optional<std::string> string(std::string_view name);
  std::vector<std::string> strings(std::string_view name);  // a string alone is a list of one
  std::vector<int32_t> tokens(std::string_view name);
  const Json* object(std::string_view name);
  const Json* array(std::string_view name);

  std::string path(std::string_view name) const { return prefix_ + std::string(name); }
  const Json& json() const { return *object_; }

  // Fields that have no effect by nature are marked as read.
  void accept(std::initializer_list<std::string_view> names);
  // 400 for a field that is there, not null and was not read; `known` says why some of them are refused.
  void refuse_rest(std::span<const RefusedField> known = {}) const;

 private:
  const Json* object_;
  std::string prefix_;
  std::unordered_set<std::string> read_;
};

// The body as a JSON object. 400 for bad UTF-8, bad JSON or anything else.
Json parse_body(std::string_view body);

}  // namespace easydel::serve
