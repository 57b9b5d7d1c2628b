#include "easydel/infra/config/config_spelling.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/config/json_keys.h"

namespace easydel {
namespace {

constexpr std::string_view kRope = "rope_parameters";

bool has_value(const Json* json) { return json && !json->is_null(); }

// `to` takes the value and, unless it is there already, the place of `from`.
void rename(CurrentSpelling& spelling, const std::string& from, const std::string& to) {
  Json renamed = Json::object();
  for (const auto& [key, value] : spelling.json.as_object()) {
    if (key != from)
      renamed[key] = value;
    else if (!spelling.json.contains(to))
      renamed[to] = value;
  }
  if (spelling.json.contains(to)) renamed[to] = spelling.json.at(from);
  spelling.json = std::move(renamed);
  spelling.given[to] = from;
}

void erase(Json& object, const std::string& key) { object.as_object().erase(key); }

void rename_aliases(CurrentSpelling& spelling, const std::vector<FieldValue>& fields) {
  for (const FieldValue& field : fields) {
    for (const std::string& alias : field.aliases) {
      if (spelling.json.contains(alias)) rename(spelling, alias, field.key);
    }
  }
  if (spelling.json.contains("torch_dtype")) {
    if (has_value(spelling.json.find("dtype")))
      erase(spelling.json, "torch_dtype");
    else
      rename(spelling, "torch_dtype", "dtype");
  }
}

// A number of labels that differs from the names given wins over them, as in transformers.
void name_labels(CurrentSpelling& spelling, std::size_t labels_before, const std::string& where) {
  const Json* given = spelling.json.find("num_labels");
  if (!given) return;
  int64_t count = static_cast<int64_t>(labels_before);
  if (!given->is_null()) FieldType<int64_t>::from_json(*given, count, where + "num_labels");
  constexpr int64_t kMaxLabels = 1'000'000;
  require<ConfigError>(count >= 1 && count <= kMaxLabels, where, "num_labels must be from 1 to ", kMaxLabels, "; got ",
                       count, ".");
  const Json* names = spelling.json.find("id2label");
  const std::size_t named = has_value(names) ? names->size() : labels_before;
  if (static_cast<int64_t>(named) == count) {
    erase(spelling.json, "num_labels");
    return;
  }
  Json id2label = Json::object(), label2id = Json::object();
  for (int64_t i = 0; i < count; ++i) {
    const std::string id = std::to_string(i);
    id2label[id] = "LABEL_" + id;
    label2id["LABEL_" + id] = i;
  }
  rename(spelling, "num_labels", "id2label");
  spelling.json["id2label"] = std::move(id2label);
  spelling.json["label2id"] = std::move(label2id);
}

// A config may have a block for each kind of layer; then only whole blocks are given.
const FieldValue* find_rope(const std::vector<FieldValue>& fields) {
  const FieldValue* rope = find_field(fields, kRope);
  return rope && rope->value.contains("rope_theta") ? rope : nullptr;
}

bool mentions_rope(const Json& object) {
  return object.contains("rope_parameters") || object.contains("rope_scaling") || object.contains("rope_theta") ||
         object.contains("partial_rotary_factor");
}

// One rope block from whatever was given; `theta` is what it has without a rope_theta anywhere.
void join_rope(CurrentSpelling& spelling, const Json& theta, const std::string& where) {
  std::string source;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* given = spelling.json.find(key);
    if (!has_value(given)) continue;
    if (!given->is_object()) wrong_type(where + key, "an object or null", *given);
    if (source.empty() && given->size() > 0) source = key;
  }
  Json block = source.empty() ? Json::object() : spelling.json.at(source);
  if (!block.contains("rope_type")) block["rope_type"] = has_value(block.find("type")) ? block.at("type") : "default";
  if (!block.contains("rope_theta")) {
    const Json* outside = spelling.json.find("rope_theta");
    block["rope_theta"] = has_value(outside) ? *outside : theta;
  }
  const Json* partial = spelling.json.find("partial_rotary_factor");
  if (has_value(partial) && !block.contains("partial_rotary_factor")) block["partial_rotary_factor"] = *partial;

  for (const char* key : {"rope_scaling", "rope_theta"}) {
    if (spelling.json.contains(key)) rename(spelling, key, "rope_parameters");
  }
  spelling.json["rope_parameters"] = std::move(block);
  if (source == "rope_parameters" || source.empty())
    spelling.given.erase("rope_parameters");
  else
    spelling.given["rope_parameters"] = source;
}

}  // namespace

bool has_other_spellings(const Field& field) { return field.aliases.size() > 0 || field.key == kRope; }

CurrentSpelling to_current_spelling(Json object, const std::vector<FieldValue>& fields, const std::string& where) {
  const bool sort = keys_are_sorted(object);
  CurrentSpelling spelling{std::move(object), {}};
  rename_aliases(spelling, fields);
  name_labels(spelling, 2, where);
  const FieldValue* rope = find_rope(fields);
  if (rope && mentions_rope(spelling.json)) join_rope(spelling, rope->value.at("rope_theta"), where);
  if (sort) spelling.json = with_sorted_keys(std::move(spelling.json));
  return spelling;
}

CurrentSpelling overrides_in_current_spelling(const Json& current, const Json& overrides,
                                              const std::vector<FieldValue>& fields, const std::string& where) {
  CurrentSpelling spelling{overrides, {}};
  rename_aliases(spelling, fields);
  const Json* labels = current.find("id2label");
  name_labels(spelling, has_value(labels) ? labels->size() : 2, where);
  const auto given = [&](const char* key) { return spelling.json.contains(key); };
  if (!find_rope(fields) || !mentions_rope(spelling.json)) return spelling;
  const Json& rope = current.at("rope_parameters");
  if (given("rope_scaling") || given("rope_parameters")) {
    join_rope(spelling, rope.at("rope_theta"), where);
  } else {
    Json block = rope;
    for (const char* key : {"rope_theta", "partial_rotary_factor"}) {
      if (given(key)) block[key] = spelling.json.at(key);
    }
    erase(spelling.json, "rope_theta");
    spelling.json["rope_parameters"] = std::move(block);
  }
  if (!current.contains("partial_rotary_factor")) erase(spelling.json, "partial_rotary_factor");
  return spelling;
}

}  // namespace easydel
