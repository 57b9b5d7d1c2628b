#include "easydel/cli/options/speech_text.h"

#include "easydel/core/error.h"
#include "easydel/generation/speech/transcribe.h"

namespace easydel::cli {

std::string decoded_text(const Tokenizer* tokenizer, std::span<const int32_t> ids) {
  if (tokenizer) return tokenizer->decode(ids);
  std::string text;
  for (const int32_t id : ids) text += concat(text.empty() ? "" : " ", id);
  return text;
}

std::string spoken(const Tokenizer* tokenizer, const std::vector<int64_t>& tokens, const GenerationConfig& config) {
  return decoded_text(tokenizer, without_times(tokens, config));
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin);
}

std::string spoken_text(const Tokenizer* tokenizer, const std::vector<int64_t>& tokens,
                        const GenerationConfig& config) {
  return trimmed(spoken(tokenizer, tokens, config));
}

std::vector<int64_t> read_speech_prompt(const Tokenizer* tokenizer, const std::string& text) {
  require<ConfigError>(tokenizer != nullptr, "[transcribe] a prompt needs the model's tokenizer; there is none.");
  return speech_prompt(*tokenizer, text);
}

}  // namespace easydel::cli
