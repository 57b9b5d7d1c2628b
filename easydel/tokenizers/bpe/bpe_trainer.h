// Trains a byte-level BPE tokenizer on text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/tokenizers/bpe/word_counts.h"

namespace easydel {

struct BpeTrainerOptions {
  int64_t vocab_size = 30000;               // including the special tokens and the 256 bytes
  int64_t min_frequency = 0;                // rarer pairs are not merged
  std::vector<std::string> special_tokens;  // they get the first ids
  std::string pattern = "gpt2";             // "gpt2", "llama3", "qwen2" or a regular expression
  int64_t max_token_length = 0;             // maximum length in bytes of tokens created by merges of merges; 0: any
  int threads = 0;                          // that count words; 0: one for each core
  bool show_progress = false;
};

// A complete tokenizer.json. Vocabulary and merges are those of `tokenizers.trainers.BpeTrainer` with its byte-level
// alphabet on the same files. Each line with its line break is a separate text, as in `Tokenizer.train`.
// ConfigError for options that cannot be met or an empty corpus; IoError and FormatError for the files.
Json train_byte_level_bpe(const std::vector<std::filesystem::path>& files, const BpeTrainerOptions& options = {});

// The same for texts from any source, as in `Tokenizer.train_from_iterator`.
Json train_byte_level_bpe(const NextText& next, const BpeTrainerOptions& options = {});

}  // namespace easydel
