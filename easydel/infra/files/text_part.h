// The text model inside of a multimodal checkpoint: its config, and which tensors are its own.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {

// Multimodal model types whose text part loads as a causal LM of a family of this library.
struct TextPart {
  std::string_view model_type;  // in config.json: "gemma3"
  std::string_view text_type;   // the family, where text_config does not name one: "gemma3_text"
  bool ties_embeddings;         // where neither config says so
  // As JSON: what a text_config leaves out and the family would fill in otherwise.
  std::string_view defaults = "{}";
  std::string_view without_text_config = "{}";  // what a file without a text_config leaves out besides
};

const TextPart* find_text_part(std::string_view model_type);  // null: none
std::vector<std::string> text_part_types();                   // in the order of the alphabet

// The config of the text family from that of the whole; text keys may stand in text_config or beside vision_config.
// Token ids, dtype and quantization of the whole hold for the text. FormatError begins with `where`.
Json text_config_of(const TextPart& part, const Json& config, const std::string& where);

// What the text family calls a tensor of the whole, in any of the spellings of the hub's files; none for those of
// towers and projectors. `nested`: some names of the files have language_model in them, so that only those and the
// heads are the text's.
std::optional<std::string> text_tensor_name(std::string_view name, bool nested);
bool has_nested_text(const std::vector<std::string>& names);

}  // namespace easydel
