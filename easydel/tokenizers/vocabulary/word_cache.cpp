#include "easydel/tokenizers/vocabulary/word_cache.h"

namespace easydel {

void WordCache::add(std::string_view word, uint64_t hash, std::span<const ModelToken> tokens) {
  if (slots_.empty() || words_.size() + word.size() > kMaxBytes || tokens_.size() > kMaxBytes / sizeof(ModelToken)) {
    slots_.assign(kSlots, {});
    words_.clear();
    tokens_.clear();
  }
  std::size_t place = hash & (kSlots - 1);
  for (std::size_t way = 0; way < kWays; ++way) {
    if (slots_[(hash + way) & (kSlots - 1)].word_size == 0) {
      place = (hash + way) & (kSlots - 1);
      break;
    }
  }
  slots_[place] = {hash, static_cast<uint32_t>(words_.size()), static_cast<uint32_t>(word.size()),
                   static_cast<uint32_t>(tokens_.size()), static_cast<uint32_t>(tokens.size())};
  words_ += word;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

}  // namespace easydel
