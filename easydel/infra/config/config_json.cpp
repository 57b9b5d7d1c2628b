#include "easydel/infra/config/config_json.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/config/config_check.h"
#include "easydel/infra/config/json_keys.h"
#include "easydel/infra/config/sub_config.h"

namespace easydel {
namespace {

// What was read, with the changes between `before` and `now`; keys inside an object that no field knows stay.
Json with_changes(const Json& read, const Json& before, const Json& now) {
  if (before == now) return read;
  if (!read.is_object() || !before.is_object() || !now.is_object()) return now;
  Json result = Json::object();
  for (const auto& [key, value] : read.as_object()) {
    const Json* old_value = before.find(key);
    const Json* new_value = now.find(key);
    if (new_value)
      result[key] = old_value && *old_value == *new_value ? value : *new_value;
    else if (!old_value)
      result[key] = value;
  }
  for (const auto& [key, value] : now.as_object()) {
    if (!result.contains(key)) result[key] = value;
  }
  return keys_are_sorted(read) ? with_sorted_keys(std::move(result)) : result;
}

}  // namespace

void ConfigJson::all_fields(BaseConfig& c, FieldVisitor& v) {
  c.fields(v);
  v.only_when_changed();
  v("architectures", c.architectures, "Class names in transformers.");
  v("dtype", c.dtype, "Kept with the files: what their weights are stored in.");
  v("output_hidden_states", c.output_hidden_states, "Return the hidden states of all layers.");
  v("output_attentions", c.output_attentions, "Return the attention weights of all layers.");
  v("return_dict", c.return_dict, "Kept for transformers.");
  v("is_encoder_decoder", c.is_encoder_decoder, "Kept for transformers.");
  v("chunk_size_feed_forward", c.chunk_size_feed_forward, "Kept for transformers.");
  v("id2label", c.id2label, "Names of the classes of a classifier.");
  v("label2id", c.label2id, "Kept along with id2label: its inverse.");
  v("problem_type", c.problem_type, "Type of a classifier's loss.");
  list_fields(c.sharding, v);
  list_fields(c.attention, v);
  list_fields(c.memory, v);
  list_fields(c.moe, v);
  list_fields(c.quantization, v);
}

void ConfigJson::read(BaseConfig& config, CurrentSpelling current, const std::string& where) {
  config.source_ = std::move(current.json);
  read_fields([&](FieldVisitor& v) { all_fields(config, v); }, config.source_,
              [&](std::string_view key) {
                const auto given = current.given.find(std::string(key));
                return where + (given == current.given.end() ? std::string(key) : given->second);
              });
  ConfigCheck(config).layers();
}

Json ConfigJson::write(const BaseConfig& config) {
  const auto defaults = config.make_default()->describe();
  const auto as_read = config.make_default();
  read(*as_read, {config.source_, {}}, "");
  const auto before = as_read->describe();
  const auto now = config.describe();

  const bool sort = keys_are_sorted(config.source_);
  Json json = config.source_;
  if (!json.contains("model_type")) json["model_type"] = config.model_type();
  for (std::size_t i = 0; i < now.size(); ++i) {
    const Json* read = config.source_.find(now[i].key);
    if (read) {
      json[now[i].key] = with_changes(*read, before[i].value, now[i].value);
    } else if (now[i].always || !(now[i].value == defaults[i].value)) {
      json[now[i].key] = now[i].value;
    }
  }
  return sort ? with_sorted_keys(std::move(json)) : json;
}

void ConfigJson::change(BaseConfig& config, const Json& values, bool any_key) {
  const std::string where = "[" + config.class_name() + "] ";
  if (!values.is_object()) wrong_type(where + "a config override", "an object", values);
  const auto fields = config.describe();
  Json changed = write(config);
  const bool sort = keys_are_sorted(changed);
  Json given = with_inner_overrides(changed, values);
  config.rename_older_keys(given, /*is_whole=*/false);
  CurrentSpelling spelled = overrides_in_current_spelling(changed, given, fields, where);
  for (const auto& [key, value] : spelled.json.as_object()) {
    if (!any_key && !changed.contains(key)) {
      std::vector<std::string> known;
      for (const FieldValue& field : fields) known.push_back(field.key);
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        const std::string nearest = nearest_name(key, known);
        fail<ConfigError>(
            where, "an override must be a key of the config; got \"", key, "\".",
            nearest.empty() ? " attach_custom_arguments takes any key." : concat(" Did you mean \"", nearest, "\"?"));
      }
    }
    changed[key] = value;
  }
  if (sort) changed = with_sorted_keys(std::move(changed));
  auto next = config.make_default();
  next->name_or_path = config.name_or_path;
  next->model_mesh_ = config.model_mesh_;
  read(*next, {std::move(changed), std::move(spelled.given)}, where);
  next->post_init();
  next->validate();
  config.assign(std::move(*next));
}

}  // namespace easydel
