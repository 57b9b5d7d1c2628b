// A byte-level BPE trained on text, so that a model can be made from nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/tokenizers/bpe/word_counts.h"

namespace easydel {

struct BpeTrainerOptions {
  int64_t vocab_size = 30000;               // with the special tokens and the 256 bytes
  int64_t min_frequency = 0;                // pairs that are seen less often are not merged
  std::vector<std::string> special_tokens;  // they get the first ids
  std::string pattern = "gpt2";             // "gpt2", "llama3", "qwen2" or a regular expression
  int64_t max_token_length = 0;             // tokens that merges of merges make stay below so many bytes; 0: any
  int threads = 0;                          // that count words; 0: one for each core
  bool show_progress = false;
};

// A whole tokenizer.json. Vocabulary and merges are those of `tokenizers.trainers.BpeTrainer` with its byte-level
// alphabet on the same files. A line with its line break is a text of its own, as in `Tokenizer.train`.
// ConfigError for options that cannot be met or a corpus without a word; IoError and FormatError for the files.
Json train_byte_level_bpe(const std::vector<std::filesystem::path>& files, const BpeTrainerOptions& options = {});

// The same for texts that come from anywhere, as in `Tokenizer.train_from_iterator`.
Json train_byte_level_bpe(const NextText& next, const BpeTrainerOptions& options = {});

}  // namespace easydel
