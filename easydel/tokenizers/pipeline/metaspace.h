// The options of the pre-tokenizer and the decoder of type Metaspace.
#pragma once

#include <cstdint>
#include <string>

#include "easydel/tokenizers/files/json_field.h"

namespace easydel {

enum class PrependScheme : uint8_t { kAlways, kFirst, kNever };

struct MetaspaceOptions {
  std::string replacement;  // one character
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = true;
};

MetaspaceOptions read_metaspace(const JsonField& field);

}  // namespace easydel
