// Words and when they were said, of tokens whose times are known.
#pragma once

#include <string>
#include <vector>

#include "easydel/generation/speech/transcribe.h"
#include "easydel/generation/stopping.h"

namespace easydel {

struct SpokenWord {
  double start = 0, end = 0;  // seconds
  std::string text;           // with the space before it
};

// Tokens grouped as transformers groups Whisper's: at spaces and punctuation, or where a language has no spaces ("zh",
// "ja", "th", "lo", "my", "yue") at each piece that is text by itself; marks go to the word that they belong to. A word
// never crosses two segments. `decode` leaves special tokens out. ConfigError unless the segments have token_times.
std::vector<SpokenWord> words_of(const Transcription& said, const DecodeFunction& decode,
                                 const GenerationConfig& config);

}  // namespace easydel
