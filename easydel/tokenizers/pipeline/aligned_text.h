// A text being normalized, with the range of the original that each of its bytes is aligned to.
#pragma once

#include <cstdint>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/text/utf8.h"
#include "easydel/text/unicode/unicode.h"
#include "easydel/tokenizers/tokenizer.h"

namespace easydel {

// Alignment is kept for each byte, absolute in the original; none is stored until something changes, and none at all
// for a caller that does not need offsets.
class AlignedText {
 public:
  AlignedText(std::string_view original, uint32_t begin, bool tracked)
      : text_(original), original_size_(original.size()), begin_(begin), tracked_(tracked) {}

  std::string_view view() const { return text_; }
  bool empty() const { return text_.empty(); }
  bool is_tracked() const { return tracked_; }
  bool is_unchanged() const { return unchanged_; }
  uint32_t begin() const { return begin_; }  // where the original starts
  Offset align(std::size_t byte) const;      // of the full character while nothing has changed

  // A new text from changes in order, after `skipped` characters of the old one. See unicode::Change.
  void transform(std::span<const unicode::Change> changes, std::size_t skipped = 0);
  void replace(std::span<const Offset> matches, std::string_view content);  // matches in order, in bytes of view()
  void prepend(std::string_view prefix);                                    // no-op for an empty text
  template <class Keep>
  void filter(const Keep& keep);
  template <class Map>
  void map(const Map& map);

  const std::vector<Offset>& alignments();  // one for each byte, for who joins several texts to one

 private:
  void materialize();

  std::string text_;
  std::vector<Offset> align_;
  std::size_t original_size_;
  uint32_t begin_;
  bool tracked_;
  bool unchanged_ = true;
};

// FormatError when a text has grown out of proportion to its original: a tokenizer.json of a few lines could exhaust
// any memory.
void check_growth(std::size_t size, std::size_t original);

// The byte range of the character around `byte`.
Offset character_around(std::string_view text, std::size_t byte);

template <class Keep>
void AlignedText::filter(const Keep& keep) {
  std::vector<unicode::Change> changes;
  changes.reserve(text_.size());
  std::size_t skipped = 0;
  int32_t removed = 0;
  bool dropped = false;
  for (std::size_t at = 0; at < text_.size();) {
    const char32_t code = utf8::next(text_, at);
    if (!keep(code)) {
      ++removed;
      dropped = true;
      continue;
    }
    if (changes.empty()) {
      skipped = static_cast<std::size_t>(removed);
    } else {
      changes.back().second = -removed;
    }
    changes.emplace_back(code, 0);
    removed = 0;
  }
  if (!changes.empty()) changes.back().second = -removed;
  if (dropped) transform(changes, skipped);
}

template <class Map>
void AlignedText::map(const Map& map) {
  std::vector<unicode::Change> changes;
  bool changed = false;
  for (std::size_t at = 0; at < text_.size();) {
    const char32_t code = utf8::next(text_, at);
    changes.emplace_back(map(code), 0);
    changed = changed || changes.back().first != code;
  }
  if (changed) transform(changes);
}

}  // namespace easydel
