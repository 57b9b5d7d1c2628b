// The algorithm of `tokenizers`' BpeTrainer, step by step, for identical results: also where a merge creates a token
// that another one has created before, and where counts of overlapping pairs ("aaa") are off.
#include "easydel/tokenizers/bpe/bpe_merges.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "easydel/core/error.h"
#include "easydel/core/text/utf8.h"
#include "easydel/tokenizers/bpe/bpe_long_word.h"

namespace easydel {
namespace {

using Positions = std::vector<uint32_t>;  // words that contain a pair

constexpr uint32_t kLongWord = 1024;  // symbols, above which tracking positions is cheaper than a scan

uint64_t pair_of(uint32_t a, uint32_t b) { return uint64_t{a} << 32 | b; }

// Pair to count; entries are never removed.
class PairCounts {
 public:
  struct Entry {
    uint64_t pair = kFree;
    int64_t count = 0;
    uint32_t pending = 0;  // index of the merge's new list of positions, from 1; 0: none
  };

  PairCounts() : entries_(1 << 16) {}
  Entry& operator[](uint64_t pair) {
    if (used_ * 2 > entries_.size()) grow();
    Entry& entry = slot(pair);
    if (entry.pair == kFree) {
      entry.pair = pair;
      ++used_;
    }
    return entry;
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  Entry& slot(uint64_t pair) {
    const std::size_t mask = entries_.size() - 1;
    uint64_t hash = pair * 0x9E3779B97F4A7C15;
    std::size_t at = (hash ^ hash >> 32) & mask;
    while (entries_[at].pair != pair && entries_[at].pair != kFree) at = (at + 1) & mask;
    return entries_[at];
  }
  void grow() {
    std::vector<Entry> old(entries_.size() * 2);
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.pair != kFree) slot(entry.pair) = entry;
    }
  }
  std::vector<Entry> entries_;
  std::size_t used_ = 0;
};

struct Candidate {
  uint64_t count;
  uint64_t pair;
  uint32_t serial;                                                 // of its positions
  friend bool operator<(const Candidate& a, const Candidate& b) {  // the largest count first, then the smallest pair
    if (a.count != b.count) return a.count < b.count;
    if (a.pair != b.pair) return a.pair > b.pair;
    return a.serial > b.serial;
  }
};

class Merging {
 public:
  Merging(const BpeLimits& limits, TrainedBpe& model) : limits_(limits), model_(model) {}

  uint32_t token(const std::string& text) {
    const auto [at, is_new] = ids_.try_emplace(text, static_cast<uint32_t>(model_.tokens.size()));
    if (is_new) {
      model_.tokens.push_back(text);
      lengths_.push_back(utf8::count(text));
    }
    return at->second;
  }

  void take(const WordCounts& words, const std::array<uint32_t, 256>& byte_ids) {
    std::size_t bytes = 0, kept = 0;
    for (const auto& word : words.words()) {
      if (word.text.size() < 2) continue;
      bytes += word.text.size();
      ++kept;
    }
    symbols_.reserve(bytes);
    words_.reserve(kept);
    for (const auto& word : words.words()) {
      if (word.text.size() < 2) continue;
      require<NotSupportedError>(word.text.size() < UINT32_MAX, "[train_byte_level_bpe] a word of ", word.text.size(),
                                 " bytes is too long. Use a pattern that splits it.");
      words_.push_back({symbols_.size(), static_cast<uint32_t>(word.text.size()), 0, static_cast<int64_t>(word.count)});
      for (const char c : word.text) symbols_.push_back(byte_ids[static_cast<uint8_t>(c)]);
    }
  }

  void count_pairs() {
    for (uint32_t i = 0; i < words_.size(); ++i) {
      const uint32_t* symbols = symbols_.data() + words_[i].begin;
      for (std::size_t k = 0; k + 1 < words_[i].size; ++k) change(pair_of(symbols[k], symbols[k + 1]), 1, i);
      if (words_[i].size < kLongWord) continue;
      long_words_.emplace_back(std::span(symbols, words_[i].size));
      words_[i].long_word = static_cast<uint32_t>(long_words_.size());
    }
    push_pending();
  }

  void run(Progress& progress) {
    std::vector<std::pair<uint64_t, uint32_t>> merges;
    while (ids_.size() < limits_.vocab_size && !heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      Candidate& top = heap_.back();
      const auto count = static_cast<uint64_t>(counts_[top.pair].count);
      if (top.count != count) {
        top.count = count;
        std::push_heap(heap_.begin(), heap_.end());
        continue;
      }
      if (count < 1 || limits_.min_frequency > count) break;
      const uint64_t pair = top.pair;
      const Positions positions = std::move(positions_[top.serial]);
      heap_.pop_back();
      const auto left = static_cast<uint32_t>(pair >> 32), right = static_cast<uint32_t>(pair);
      const uint32_t merged = token(model_.tokens[left] + model_.tokens[right]);
      merges.emplace_back(pair, merged);
      for (const uint32_t word : positions) merge_in(word, left, right, merged);
      push_pending();
      progress.advance();
    }
    keep_last_of_each(merges);
  }

 private:
  struct Word {
    std::size_t begin;
    uint32_t size;
    uint32_t long_word;  // its index, from 1; 0: none
    int64_t count;
  };

  void change(uint64_t pair, int64_t sign, uint32_t word) {
    auto& entry = counts_[pair];
    entry.count += sign * words_[word].count;
    if (sign < 0) return;
    if (entry.pending == 0) {
      pending_.push_back({pair, {}});
      entry.pending = static_cast<uint32_t>(pending_.size());
    }
    Positions& positions = pending_[entry.pending - 1].second;
    if (positions.empty() || positions.back() != word) positions.push_back(word);
  }

  void push_pending() {
    for (auto& [pair, positions] : pending_) {
      auto& entry = counts_[pair];
      entry.pending = 0;
      if (entry.count <= 0) continue;
      heap_.push_back({static_cast<uint64_t>(entry.count), pair, static_cast<uint32_t>(positions_.size())});
      std::push_heap(heap_.begin(), heap_.end());
      positions.shrink_to_fit();
      positions_.push_back(std::move(positions));
    }
    pending_.clear();
  }

  bool may_join(uint32_t a, uint32_t b) const {
    return limits_.max_token_length == 0 || lengths_[a] + lengths_[b] < limits_.max_token_length;
  }

  void merge_in(uint32_t index, uint32_t left, uint32_t right, uint32_t merged) {
    constexpr uint32_t kNone = BpeLongWord::kNone;
    const auto around = [&](uint32_t before, uint32_t after) {
      if (before != kNone) {
        change(pair_of(before, left), -1, index);
        if (may_join(before, merged)) change(pair_of(before, merged), 1, index);
      }
      if (after != kNone) {
        change(pair_of(right, after), -1, index);
        if (may_join(merged, after)) change(pair_of(merged, after), 1, index);
      }
    };
    Word& word = words_[index];
    if (word.long_word > 0) return long_words_[word.long_word - 1].merge(left, right, merged, around);
    uint32_t* const symbols = symbols_.data() + word.begin;
    uint32_t out = 0;
    for (uint32_t in = 0; in < word.size;) {
      if (symbols[in] != left || in + 1 == word.size || symbols[in + 1] != right) {
        symbols[out++] = symbols[in++];
        continue;
      }
      in += 2;
      around(out > 0 ? symbols[out - 1] : kNone, in < word.size ? symbols[in] : kNone);
      symbols[out++] = merged;
    }
    word.size = out;
  }

  // A pair can reappear with words that it was not known to be in; its later rank counts.
  void keep_last_of_each(const std::vector<std::pair<uint64_t, uint32_t>>& merges) {
    std::unordered_map<uint64_t, std::size_t> last;
    for (std::size_t i = 0; i < merges.size(); ++i) last[merges[i].first] = i;
    for (std::size_t i = 0; i < merges.size(); ++i) {
      const uint64_t pair = merges[i].first;
      if (last[pair] == i) model_.merges.emplace_back(static_cast<uint32_t>(pair >> 32), static_cast<uint32_t>(pair));
    }
  }

  const BpeLimits& limits_;
  TrainedBpe& model_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::vector<std::size_t> lengths_;  // of the tokens, in characters: one for each byte
  std::vector<uint32_t> symbols_;     // of all words, one after the other
  std::vector<Word> words_;
  std::vector<BpeLongWord> long_words_;
  PairCounts counts_;
  std::vector<Candidate> heap_;
  std::vector<Positions> positions_;
  std::vector<std::pair<uint64_t, Positions>> pending_;
};

}  // namespace

std::string byte_level_character(uint8_t byte) {
  static const std::array<uint32_t, 256> codes = [] {
    std::array<uint32_t, 256> table{};
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool visible = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      table[b] = visible ? b : next++;
    }
    return table;
  }();
  return utf8::encode(codes[byte]);
}

TrainedBpe find_bpe_merges(WordCounts words, const std::vector<std::string>& special_tokens, const BpeLimits& limits,
                           Progress& progress) {
  TrainedBpe model;
  Merging merging(limits, model);
  for (const std::string& token : special_tokens) merging.token(token);
  std::array<std::pair<std::string, uint8_t>, 256> alphabet;
  for (std::size_t b = 0; b < 256; ++b) {
    alphabet[b] = {byte_level_character(static_cast<uint8_t>(b)), static_cast<uint8_t>(b)};
  }
  std::sort(alphabet.begin(), alphabet.end());  // bytes of UTF-8 sort as the characters do
  std::array<uint32_t, 256> byte_ids;
  for (const auto& [character, byte] : alphabet) byte_ids[byte] = merging.token(character);
  merging.take(words, byte_ids);
  words = WordCounts();
  merging.count_pairs();
  merging.run(progress);
  return model;
}

}  // namespace easydel
