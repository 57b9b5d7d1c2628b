// Pre-tokenizers, which split a text into pieces for the model: one class for each type of "pre_tokenizer".
#pragma once

#include <memory>

#include "easydel/core/text/utf8.h"
#include "easydel/tokenizers/files/json_field.h"
#include "easydel/tokenizers/pipeline/pre_tokenized.h"

namespace easydel {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(PreTokenized& text) const = 0;
  // Whether it uses the position of a piece in the original, so that alignment is kept even for ids alone.
  virtual bool needs_origin() const { return false; }
};

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonField& field);

// The types defined in separate files.
std::unique_ptr<PreTokenizer> make_byte_level_pre_tokenizer(const JsonField& field);
std::unique_ptr<PreTokenizer> make_metaspace_pre_tokenizer(const JsonField& field);
std::unique_ptr<PreTokenizer> make_split_pre_tokenizer(const JsonField& field);
std::unique_ptr<PreTokenizer> make_scripts_pre_tokenizer();

enum class SplitBehavior : uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
SplitBehavior read_behavior(const JsonField& field);

// A stretch of a piece, and whether the pattern matched it.
struct Stretch {
  uint32_t begin, end;
  bool is_match;
};

// Merges neighbors according to the behavior; what is left with is_match set is dropped.
void apply_behavior(std::vector<Stretch>& stretches, SplitBehavior behavior);

// Splits every piece that is not an added token: `cut(text, stretches)` covers the text of a piece with stretches in
// order.
template <class Cut>
void split_pieces(PreTokenized& text, SplitBehavior behavior, const Cut& cut) {
  std::vector<Piece> pieces;
  pieces.reserve(text.pieces().size() + text.text().size() / 4);
  std::vector<Stretch> stretches;
  for (const Piece& piece : text.pieces()) {
    if (piece.token >= 0) {
      pieces.push_back(piece);
      continue;
    }
    stretches.clear();
    cut(text.text(piece), stretches);
    apply_behavior(stretches, behavior);
    for (const Stretch& stretch : stretches) {
      if (stretch.is_match || stretch.begin >= stretch.end) continue;
      const uint32_t begin = piece.begin + stretch.begin;
      pieces.push_back({begin, piece.begin + stretch.end, text.origin_at(begin)});
    }
  }
  text.pieces() = std::move(pieces);
}

// One stretch for each character of a kind.
template <class IsMatch>
void cut_at_characters(std::string_view text, std::vector<Stretch>& stretches, const IsMatch& is_match) {
  uint32_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = static_cast<uint32_t>(at);
    if (!is_match(utf8::next(text, at))) continue;
    if (done < begin) stretches.push_back({done, begin, false});
    done = static_cast<uint32_t>(at);
    stretches.push_back({begin, done, true});
  }
  if (done < text.size()) stretches.push_back({done, static_cast<uint32_t>(text.size()), false});
}

}  // namespace easydel
