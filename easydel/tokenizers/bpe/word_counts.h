// Counts the words of a corpus.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "easydel/core/progress/progress.h"
#include "easydel/tokenizers/bpe/bpe_split.h"

namespace easydel {

// A flat hash table; the bytes of the words are stored in large blocks.
class WordCounts {
 public:
  struct Word {
    std::string_view text;
    uint64_t count;
  };

  WordCounts();
  void add(std::string_view word, uint64_t count = 1);
  void add(const WordCounts& others);
  const std::vector<Word>& words() const { return words_; }

 private:
  struct Slot {
    uint32_t tag;    // some bits of the hash
    uint32_t index;  // of the word, from 1; 0: free
  };
  void grow();
  std::string_view keep(std::string_view word);

  uint64_t seed_;
  std::vector<Slot> slots_;
  std::vector<Word> words_;
  std::vector<uint64_t> hashes_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t block_left_ = 0;
};

// Reads the next text, false at the end. Each text is split separately: no word crosses its end.
using NextText = std::function<bool(std::string& text)>;

// Words of files, line by line, where a line is a text with its line break; memory grows with the distinct words and
// the longest line. IoError for a file that cannot be read, FormatError for one that is not UTF-8.
WordCounts count_words(const std::vector<std::filesystem::path>& files, const std::string& pattern, int threads,
                       Progress& progress);
WordCounts count_words(const NextText& next, const std::string& pattern, int threads, Progress& progress);

}  // namespace easydel
