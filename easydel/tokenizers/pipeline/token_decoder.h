// Decoders, which turn tokens back into text: one class for each type of "decoder".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "easydel/tokenizers/files/json_field.h"

namespace easydel {

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;  // the text is the concatenation of what is left
};

std::unique_ptr<TokenDecoder> make_token_decoder(const JsonField& field);

}  // namespace easydel
