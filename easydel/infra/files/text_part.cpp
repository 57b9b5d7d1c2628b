#include "easydel/infra/files/text_part.h"

#include <algorithm>
#include <array>

#include "easydel/core/error.h"

namespace easydel {
namespace {

constexpr std::string_view kQwen2Defaults =
    R"({"vocab_size": 152064, "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80,
        "num_attention_heads": 64, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "max_window_layers": 80,
        "bos_token_id": 151643, "eos_token_id": 151645, "rope_theta": 1000000.0})";

constexpr std::string_view kMistral3Text =
    R"({"vocab_size": 131072, "hidden_size": 5120, "intermediate_size": 32768, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-05, "sliding_window": null, "rope_theta": 1000000000.0})";

constexpr std::array kParts = {
    TextPart{"gemma3", "gemma3_text", true},
    TextPart{"llama4", "llama4_text", false},
    TextPart{"mistral3", "mistral", true, "{}", kMistral3Text},
    TextPart{"qwen2_5_vl", "qwen2", false, kQwen2Defaults},
    TextPart{"qwen2_vl", "qwen2", false, kQwen2Defaults},
    TextPart{"qwen3_5", "qwen3_5_text", false},
    TextPart{"qwen3_vl", "qwen3", false, R"({"max_position_embeddings": 128000, "rope_theta": 500000.0})"},
};

// Text configs whose computation, on text alone, is that of a family.
constexpr std::pair<std::string_view, std::string_view> kSameAs[] = {
    {"qwen2_5_vl_text", "qwen2"}, {"qwen2_vl_text", "qwen2"}, {"qwen3_vl_text", "qwen3"}};

// Keys of the whole in files that have no text_config.
constexpr std::string_view kOfTheWhole[] = {
    "architectures",  "auto_map",      "image_token_id",      "processor_class",       "text_config",
    "video_token_id", "vision_config", "vision_end_token_id", "vision_start_token_id", "vision_token_id"};
// Keys of the whole that hold for the text, where its own config does not have them.
constexpr std::string_view kInherited[] = {"dtype",        "torch_dtype",         "bos_token_id",        "eos_token_id",
                                           "pad_token_id", "quantization_config", "transformers_version"};

// Each prefix with its place in the text family; longer ones come first.
constexpr std::pair<std::string_view, std::string_view> kNested[] = {{"language_model.model.", "model."},
                                                                     {"language_model.lm_head.", "lm_head."},
                                                                     {"model.language_model.", "model."},
                                                                     {"language_model.", "model."}};
constexpr std::string_view kOwn[] = {"lm_head.", "score."};

bool has(const Json& object, std::string_view key) { return object.find(key) && !object.at(key).is_null(); }

// Positions in time, height and width are one and the same where there is only text.
void drop_mrope(Json& text) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!has(text, key) || !text.at(key).is_object()) continue;
    Json& rope = text[key];
    for (const char* own : {"mrope_section", "mrope_interleaved"}) rope.as_object().erase(own);
    for (const char* type : {"type", "rope_type"}) {
      const Json* given = rope.find(type);
      if (given && given->is_string() && given->as_string() == "mrope") rope[type] = "default";
    }
  }
}

bool names_theta(const Json& text) {
  return has(text, "rope_theta") ||
         (has(text, "rope_parameters") && text.at("rope_parameters").contains("rope_theta")) ||
         (has(text, "rope_scaling") && text.at("rope_scaling").contains("rope_theta"));
}

void fill_in(Json& text, std::string_view defaults) {
  const Json values = Json::parse(defaults);
  for (const auto& [key, value] : values.as_object()) {
    if (key == "rope_theta" ? !names_theta(text) : !text.contains(key)) text[key] = value;
  }
}

// Names in lists of modules that are not quantized, as the text family has them.
void rename_modules(Json& value) {
  if (value.is_string()) {
    for (const auto& [prefix, place] : kNested) {
      if (!value.as_string().starts_with(prefix)) continue;
      value = concat(place, value.as_string().substr(prefix.size()));
      return;
    }
  } else if (value.is_array()) {
    for (Json& element : value.as_array()) rename_modules(element);
  } else if (value.is_object()) {
    for (auto& [key, element] : value.as_object()) rename_modules(element);
  }
}

}  // namespace

const TextPart* find_text_part(std::string_view model_type) {
  const auto found =
      std::find_if(kParts.begin(), kParts.end(), [&](const TextPart& part) { return part.model_type == model_type; });
  return found == kParts.end() ? nullptr : &*found;
}

std::vector<std::string> text_part_types() {
  std::vector<std::string> types;
  for (const TextPart& part : kParts) types.emplace_back(part.model_type);
  return types;
}

Json text_config_of(const TextPart& part, const Json& config, const std::string& where) {
  const Json* nested = config.find("text_config");
  const bool is_flat = !nested || nested->is_null();
  require<FormatError>(is_flat || nested->is_object(), where, "text_config must be an object; got ",
                       is_flat ? std::string() : nested->dump(), ".");
  Json text = is_flat ? config : *nested;
  for (const std::string_view key : kOfTheWhole) text.as_object().erase(key);
  for (const std::string_view key : kInherited) {
    if (!has(text, key) && has(config, key)) text[key] = config.at(key);
  }
  if (has(text, "quantization_config")) rename_modules(text["quantization_config"]);

  std::string family(part.text_type);
  if (!is_flat && has(text, "model_type") && text.at("model_type").is_string()) {
    family = text.at("model_type").as_string();
    for (const auto& [type, same] : kSameAs) {
      if (family == type) family = same;
    }
  }
  text["model_type"] = family;
  if (family == part.text_type) {
    fill_in(text, part.defaults);
    if (is_flat) fill_in(text, part.without_text_config);
  }
  drop_mrope(text);

  const auto ties = [](const Json& from) -> std::optional<bool> {
    const Json* given = from.find("tie_word_embeddings");
    return given && given->is_bool() ? std::optional(given->as_bool()) : std::nullopt;
  };
  const auto own = ties(text), whole = ties(config);
  text["tie_word_embeddings"] = whole ? *whole || own.value_or(false) : own.value_or(part.ties_embeddings);
  return text;
}

bool has_nested_text(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.starts_with("language_model.") || name.starts_with("model.language_model.");
  });
}

std::optional<std::string> text_tensor_name(std::string_view name, bool nested) {
  for (const std::string_view prefix : kOwn) {
    if (name.starts_with(prefix)) return std::string(name);
  }
  if (!nested) return name.starts_with("model.") ? std::optional<std::string>(name) : std::nullopt;
  for (const auto& [prefix, place] : kNested) {
    if (name.starts_with(prefix)) return concat(place, name.substr(prefix.size()));
  }
  return std::nullopt;
}

}  // namespace easydel
