// The text of what a speech model heard, for commands that print it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "easydel/generation/generation_config.h"
#include "easydel/tokenizers/tokenizer.h"

namespace easydel::cli {

// Without a tokenizer the ids.
std::string decoded_text(const Tokenizer* tokenizer, std::span<const int32_t> ids);
// Without the tokens that say a language, a task or a time.
std::string spoken(const Tokenizer* tokenizer, const std::vector<int64_t>& tokens, const GenerationConfig& config);
// Likewise, without the spaces before it.
std::string spoken_text(const Tokenizer* tokenizer, const std::vector<int64_t>& tokens, const GenerationConfig& config);
std::string trimmed(const std::string& text);

// speech_prompt; ConfigError without a tokenizer.
std::vector<int64_t> read_speech_prompt(const Tokenizer* tokenizer, const std::string& text);

}  // namespace easydel::cli
