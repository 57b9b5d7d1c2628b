#include "easydel/lora/lora_config.h"

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/text/regex/regex.h"

namespace easydel {
namespace {

bool matches(std::string_view path, const std::string& pattern) {
  std::vector<Offset> found;
  Regex(pattern, concat("[lora] \"", pattern, "\"")).find_all(path, found);
  return !found.empty();
}

class Reader {
 public:
  Reader(const Json& json, const std::string& where) : json_(json), where_(where) {}

  const Json* find(const char* key) const {
    const Json* value = json_.find(key);
    return value && !value->is_null() ? value : nullptr;
  }
  double number(const char* key, const Json& value) const {
    require<FormatError>(value.is_number() && std::isfinite(value.as_double()), "[", where_, "] \"", key,
                         "\" must be a number; got ", value.dump(), ".");
    return value.as_double();
  }
  int64_t integer(const char* key, const Json& value) const {
    require<FormatError>(value.is_int(), "[", where_, "] \"", key, "\" must be an integer; got ", value.dump(), ".");
    return value.as_int();
  }
  bool flag(const char* key) const {
    const Json* value = find(key);
    if (!value) return false;
    require<FormatError>(value->is_bool(), "[", where_, "] \"", key, "\" must be true or false; got ", value->dump(),
                         ".");
    return value->as_bool();
  }
  // Keys that change what an adapter computes, and that are nothing here.
  void refuse(const char* key) const {
    const Json* value = find(key);
    const bool empty =
        !value || *value == Json(false) || ((value->is_object() || value->is_array()) && value->size() == 0);
    require<NotSupportedError>(empty, "[", where_, "] \"", key, "\" is not supported; got ", value ? value->dump() : "",
                               ".");
  }
  const Json::Object& object(const char* key, const Json& value) const {
    require<FormatError>(value.is_object(), "[", where_, "] \"", key, "\" must be an object; got ", value.dump(), ".");
    return value.as_object();
  }

 private:
  const Json& json_;
  const std::string& where_;
};

}  // namespace

bool ends_in(std::string_view path, const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(),
                                 [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; });
  if (!plain) return matches(path, "^(.*\\.)?(" + name + ")$");
  return path == name || (path.ends_with(name) && path[path.size() - name.size() - 1] == '.');
}

bool is_found(std::string_view path, const std::string& pattern) { return matches(path, pattern); }

LoraConfig LoraConfig::from_json(const Json& json, const std::string& where) {
  require<FormatError>(json.is_object(), "[", where, "] must be an object; got ", json.type_name(), ".");
  const Reader reader(json, where);
  const Json* type = reader.find("peft_type");
  require<FormatError>(type && type->is_string(), "[", where, "] \"peft_type\" must be a string; got ",
                       type ? type->dump() : "none", ".");
  require<NotSupportedError>(type->as_string() == "LORA", "[", where, "] \"peft_type\" must be \"LORA\"; got ",
                             type->dump(), ".");
  for (const char* key : {"lora_bias", "layer_replication", "megatron_config", "trainable_token_indices",
                          "alora_invocation_tokens", "use_qalora", "target_parameters", "use_bdlora", "arrow_config",
                          "kasa_config", "velora_config", "monteclora_config"})
    reader.refuse(key);
  if (const Json* bias = reader.find("bias")) {
    require<NotSupportedError>(*bias == Json("none"), "[", where, "] \"bias\" must be \"none\"; got ", bias->dump(),
                               ".");
  }
  LoraConfig config;
  config.file = json;
  if (const Json* value = reader.find("r")) config.r = reader.integer("r", *value);
  if (const Json* value = reader.find("lora_alpha")) config.lora_alpha = reader.number("lora_alpha", *value);
  if (const Json* value = reader.find("lora_dropout")) config.lora_dropout = reader.number("lora_dropout", *value);
  config.use_rslora = reader.flag("use_rslora");
  config.use_dora = reader.flag("use_dora");
  if (const Json* value = reader.find("init_lora_weights")) {
    // PiSSA and OLoRA follow from the base's weights, so that loading can take the same off them. The others do not.
    config.init = *value == Json("gaussian") ? LoraInit::Gaussian
                  : *value == Json(false)    ? LoraInit::Random
                  : *value == Json("pissa")  ? LoraInit::Pissa
                  : *value == Json("olora")  ? LoraInit::Olora
                                             : LoraInit::Default;
    const bool changes_base =
        value->is_string() && (value->as_string().starts_with("pissa_") || value->as_string().starts_with("corda") ||
                               value->as_string() == "loftq");
    require<NotSupportedError>(!changes_base, "[", where, "] \"init_lora_weights\": ", value->dump(),
                               " changes the weights of the base, which are not in the adapter. Save it with "
                               "path_initial_model_for_weight_conversion in peft.");
  }
  if (const Json* value = reader.find("rank_pattern")) {
    for (const auto& [name, rank] : reader.object("rank_pattern", *value))
      config.rank_pattern.emplace_back(name, reader.integer("rank_pattern", rank));
  }
  if (const Json* value = reader.find("alpha_pattern")) {
    for (const auto& [name, alpha] : reader.object("alpha_pattern", *value))
      config.alpha_pattern.emplace_back(name, reader.number("alpha_pattern", alpha));
  }
  if (const Json* value = reader.find("modules_to_save")) {
    require<FormatError>(value->is_array(), "[", where, "] \"modules_to_save\" must be a list; got ", value->dump(),
                         ".");
    for (const Json& name : value->as_array()) config.modules_to_save.push_back(name.as_string());
  }
  config.validate(where);
  return config;
}

void LoraConfig::validate(const std::string& where) const {
  constexpr int64_t kMaxRank = 1 << 20;
  const auto check_rank = [&](const std::string& key, int64_t rank) {
    require<ConfigError>(rank >= 1 && rank <= kMaxRank, "[", where, "] ", key, " must be at least 1; got ", rank, ".");
  };
  check_rank("r", r);
  for (const auto& [name, rank] : rank_pattern) check_rank(concat("rank_pattern \"", name, "\""), rank);
  require<ConfigError>(std::isfinite(lora_alpha) && lora_alpha > 0, "[", where, "] lora_alpha must be above 0; got ",
                       lora_alpha, ".");
  for (const auto& [name, alpha] : alpha_pattern) {
    require<ConfigError>(std::isfinite(alpha) && alpha > 0, "[", where, "] alpha_pattern \"", name,
                         "\" must be above 0; got ", alpha, ".");
  }
  require<ConfigError>(lora_dropout >= 0 && lora_dropout < 1, "[", where,
                       "] lora_dropout must be at least 0 and below 1; got ", lora_dropout, ".");
}

int64_t LoraConfig::rank_of(std::string_view path) const {
  for (const auto& [name, rank] : rank_pattern) {
    if (ends_in(path, name)) return rank;
  }
  return r;
}

double LoraConfig::alpha_of(std::string_view path) const {
  for (const auto& [name, alpha] : alpha_pattern) {
    if (ends_in(path, name)) return alpha;
  }
  return lora_alpha;
}

double LoraConfig::scaling_of(std::string_view path, int64_t rank) const {
  return alpha_of(path) / (use_rslora ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank));
}

}  // namespace easydel
