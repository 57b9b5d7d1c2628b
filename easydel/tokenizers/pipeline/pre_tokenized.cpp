#include "easydel/tokenizers/pipeline/pre_tokenized.h"

#include "easydel/tokenizers/pipeline/aligned_text.h"

namespace easydel {

Offset PreTokenized::align(uint32_t byte) const { return rewritten_ ? align_[byte] : character_around(text_, byte); }

Offset PreTokenized::original(const Piece& piece, uint32_t begin, uint32_t end) const {
  if (begin >= end) return {piece.origin + begin, piece.origin + end};
  return {align(piece.begin + begin).begin, align(piece.begin + end - 1).end};
}

uint32_t PreTokenized::origin_at(uint32_t byte) const {
  if (!rewritten_) return byte;
  return tracked_ ? align_[byte].begin : 0;
}

void PreTokenized::rewrite(std::string text, std::vector<Offset> align) {
  check_growth(text.size(), original_size_);
  storage_ = std::move(text);
  text_ = storage_;
  align_ = std::move(align);
  rewritten_ = true;
}

}  // namespace easydel
